"""The usual ways of asking: the bytes around the question that nearly every client sends, enumerated. Pure.

A response depends on few of them: whether RD is to be copied, whether an OPT is due and has DO, and whether a cookie
goes into it. So the ways fall into a handful of kinds, and nobody can make up a way that would have to be kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final

from lbdns.answering.constants import RD
from lbdns.answering.cookies import CLIENT, SERVER
from lbdns.answering.edns import Edns, write_opt
from lbdns.answering.options import Code, write_option

#: Payload sizes that resolvers announce, bytes; responses to others are put together each time.
USUAL_PAYLOADS: Final = (
    512, 1200, 1220, 1232, 1280, 1400, 1410, 1432, 1440, 1452, 1472, 1500, 1680, 2048, 4000, 4096, 8192, 65535,
)  # fmt: skip
_AD: Final = 0x0020
_CD: Final = 0x0010
_FORMS: Final = 5  # no OPT, OPT, OPT with DO, OPT with a cookie, OPT with DO and a cookie
KINDS: Final = 2 * _FORMS  # each with RD or without
COOKIE_FORMS: Final = 3  # the first form with a cookie
#: Bytes from the root name of an OPT to the data of its first option.
COOKIE_AT: Final = 15
#: Bytes behind the question if the OPT holds nothing but a cookie: the client's alone, or one of ours too.
COOKIE_ENDS: Final = frozenset((COOKIE_AT + CLIENT, COOKIE_AT + CLIENT + SERVER))


def _flags_and_counts(has_opt: bool) -> Iterator[tuple[bytes, bool]]:
    for bits in product((0, RD), (0, _AD), (0, _CD)):
        numbers = (sum(bits), 1, 0, 0, has_opt)
        yield b"".join(number.to_bytes(2, "big") for number in numbers), bool(bits[0])


def _ways() -> Iterator[tuple[bytes, int]]:
    for head, recurse in _flags_and_counts(False):
        yield head, int(recurse)
    for (head, recurse), payload, dnssec_ok in product(_flags_and_counts(True), USUAL_PAYLOADS, (False, True)):
        opt = write_opt(Edns(payload, 0, dnssec_ok), 0, payload)
        yield head + opt, 2 * (1 + dnssec_ok) + recurse


def _cookie_ways() -> Iterator[tuple[bytes, int]]:
    cookies = [write_option(Code.COOKIE, bytes(length)) for length in (CLIENT, CLIENT + SERVER)]
    for (head, recurse), payload, dnssec_ok, cookie in product(
        _flags_and_counts(True), USUAL_PAYLOADS, (False, True), cookies
    ):
        opt = write_opt(Edns(payload, 0, dnssec_ok), 0, payload, cookie)
        yield head + opt[:COOKIE_AT], 2 * (COOKIE_FORMS + dnssec_ok) + recurse


#: Everything of a query but its id and its question -> its kind, below KINDS.
WAYS: Final[Mapping[bytes, int]] = dict(_ways())
#: The same for queries with a cookie and no other option, without the cookie itself.
COOKIE_WAYS: Final[Mapping[bytes, int]] = dict(_cookie_ways())


def ends_with_cookie(query: bytes, end: int) -> bool:
    """Whether behind ``end``, where the question of ``query`` ends, there is room for an OPT with nothing but a cookie,
    and the cookie is as long as its option says: COOKIE_WAYS knows both lengths, but not how much follows."""
    behind = len(query) - end
    return behind in COOKIE_ENDS and query[end + COOKIE_AT - 1] == behind - COOKIE_AT


def way_of(around: bytes) -> int | None:
    """The kind of a query with these bytes ``around`` its question; None if it is no usual one."""
    way = WAYS.get(around)
    if way is None and ends_with_cookie(around, 10):
        way = COOKIE_WAYS.get(around[: 10 + COOKIE_AT])
    return way


def has_cookie(kind: int) -> bool:
    return kind >= 2 * COOKIE_FORMS


def asked_like(kind: int) -> tuple[int, Edns | None]:
    """Of a query of this kind, what its response depends on: the flags that are copied, and the OPT."""
    form, recurse = divmod(kind, 2)
    edns = Edns(0, 0, dnssec_ok=form % 2 == 0) if form else None
    return RD if recurse else 0, edns
