"""The usual ways of asking: the bytes around the question that nearly every client sends, enumerated. Pure.

A response depends on few of them: whether RD is to be copied, and whether an OPT is due and has DO. So the ways fall
into a handful of kinds, and nobody can make up a way that would have to be kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final

from lbdns.answering.constants import RD
from lbdns.answering.edns import Edns, write_opt

#: Payload sizes that resolvers announce, bytes; responses to others are put together each time.
USUAL_PAYLOADS: Final = (
    512, 1200, 1220, 1232, 1280, 1400, 1410, 1432, 1440, 1452, 1472, 1500, 1680, 2048, 4000, 4096, 8192, 65535,
)  # fmt: skip
_AD: Final = 0x0020
_CD: Final = 0x0010
KINDS: Final = 6  # RD or not, with each of: no OPT, OPT, OPT with DO


def _ways() -> Iterator[tuple[bytes, int]]:
    """Flags, counts and OPT of a query without options, and the kind of response it gets."""
    forms = [(0, b"")] + [
        (1 + dnssec_ok, write_opt(Edns(payload, 0, dnssec_ok), 0, payload))
        for payload, dnssec_ok in product(USUAL_PAYLOADS, (False, True))
    ]
    for (form, opt), *bits in product(forms, (0, RD), (0, _AD), (0, _CD)):
        numbers = (sum(bits), 1, 0, 0, bool(opt))
        yield b"".join(number.to_bytes(2, "big") for number in numbers) + opt, 2 * form + bool(bits[0])


#: Everything of a query but its id and its question -> its kind, below KINDS.
WAYS: Final[Mapping[bytes, int]] = dict(_ways())
