"""The codes of continents, countries and subdivisions, as databases of networks use them. Pure."""

from __future__ import annotations

import re
from typing import Final

from lbdns.text.suggestions import nearest

#: Africa, Antarctica, Asia, Europe, North America, Oceania, South America
CONTINENTS: Final = ("AF", "AN", "AS", "EU", "NA", "OC", "SA")

#: ISO 3166-1 alpha-2, and XK for Kosovo, which has no code there
COUNTRIES: Final = frozenset(
    """
    AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA
    CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA
    GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP
    KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS
    MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS
    RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW
    TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW
    """.split()  # noqa: SIM905
)
#: Common abbreviations, and the codes that are meant
_MEANT: Final = {"UK": "GB", "EL": "GR"}
_SUBDIVISION: Final = re.compile(r"([A-Z]{2})-[A-Z0-9]{1,3}\Z")


def parse_continent(text: str) -> str:
    """Return the code of a continent in capital letters. Raises ValueError."""
    if text.upper() not in CONTINENTS:
        raise ValueError(f"{text!r} is not the code of a continent{nearest(text.upper(), CONTINENTS)}")
    return text.upper()


def parse_country(text: str) -> str:
    """Return the code of a country in capital letters. Raises ValueError."""
    code = text.upper()
    if code in COUNTRIES:
        return code
    meant = f". Perhaps you meant {_MEANT[code]!r}?" if code in _MEANT else "; write an ISO 3166 code such as 'DE'"
    raise ValueError(f"{text!r} is not the code of a country{meant}")


def parse_subdivision(text: str) -> str:
    """Return the code of a subdivision, such as US-CA, in capital letters. Raises ValueError."""
    match = _SUBDIVISION.match(text.upper())
    if match is None:
        raise ValueError(f"{text!r} is not the code of a subdivision; write an ISO 3166-2 code such as 'US-CA'")
    parse_country(match[1])
    return match[0]
