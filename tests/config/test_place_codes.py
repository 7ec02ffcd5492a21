"""Tests of the codes of continents, countries and subdivisions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lbdns.config.place_codes import COUNTRIES, parse_continent, parse_country, parse_subdivision


def test_all_countries_are_listed() -> None:
    assert len(COUNTRIES) == 250, "ISO 3166-1 has 249 codes; Kosovo has none there"


@pytest.mark.parametrize(
    ("parse", "text", "code"),
    [
        (parse_continent, "EU", "EU"),
        (parse_continent, "oc", "OC"),
        (parse_country, "fr", "FR"),
        (parse_country, "XK", "XK"),
        (parse_subdivision, "us-ca", "US-CA"),
        (parse_subdivision, "FR-75", "FR-75"),
        (parse_subdivision, "GB-ENG", "GB-ENG"),
    ],
)
def test_codes_in_any_letter_case(parse: Callable[[str], str], text: str, code: str) -> None:
    assert parse(text) == code


@pytest.mark.parametrize(
    ("parse", "text", "error"),
    [
        (parse_continent, "EUR", "'EUR' is not the code of a continent. Perhaps you meant 'EU'?"),
        (parse_continent, "Europe", "'Europe' is not the code of a continent; known: AF, AN, AS, EU"),
        (parse_country, "UK", "'UK' is not the code of a country. Perhaps you meant 'GB'?"),
        (parse_country, "France", "'France' is not the code of a country; write an ISO 3166 code such as 'DE'"),
        (parse_subdivision, "CA", "'CA' is not the code of a subdivision; write an ISO 3166-2 code such as 'US-CA'"),
        (parse_subdivision, "US-CALI", "'US-CALI' is not the code of a subdivision"),
        (parse_subdivision, "UK-ENG", "'UK' is not the code of a country. Perhaps you meant 'GB'?"),
    ],
)
def test_unknown_codes(parse: Callable[[str], str], text: str, error: str) -> None:
    with pytest.raises(ValueError, match="is not the code") as caught:
        parse(text)
    assert str(caught.value).startswith(error)
