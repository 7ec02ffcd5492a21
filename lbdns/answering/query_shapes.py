"""Query shapes: the bytes that nearly all clients send around the question, and the kind of response to each shape.

The bytes around the question determine whether the response copies RD, has an OPT record, sets DO, and contains a
cookie. Nothing else depends on these bytes, so there are only a few response kinds. The set of shapes is fixed, so
clients can't make the server store new shapes. A client subnet adds neither shapes nor kinds: it is copied from the
query into the OPT record of the response without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final

from lbdns.answering.cookies import CLIENT, SERVER
from lbdns.answering.dns_constants import RD
from lbdns.answering.edns import Edns, OptionCode, is_client_subnet, write_opt, write_option

#: Payload sizes that resolvers announce, in bytes. Queries with any other size take the slow path.
USUAL_PAYLOADS: Final = (
    512, 1200, 1220, 1232, 1280, 1400, 1410, 1432, 1440, 1452, 1472, 1500, 1680, 2048, 4000, 4096, 8192, 65535,
)  # fmt: skip
_AD: Final = 0x0020
_CD: Final = 0x0010
_FORMS: Final = 5  # no OPT, OPT, OPT with DO, OPT with a cookie, OPT with DO and a cookie
_COOKIE_FORM: Final = 3  # the first form with a cookie
KINDS: Final = 2 * _FORMS  # each form without RD and with it
FIRST_COOKIE_KIND: Final = 2 * _COOKIE_FORM  # the kinds from this one up carry a cookie
#: Bytes from the root name of an OPT record to the data of its first option.
COOKIE_AT: Final = 15
#: Number of bytes after the question if the only option is a cookie: a client cookie, with or without a server cookie.
COOKIE_ENDS: Final = frozenset((COOKIE_AT + CLIENT, COOKIE_AT + CLIENT + SERVER))

#: Bytes from the root name of an OPT record to the length of its options.
OPTIONS_LENGTH_AT: Final = 9
_FIRST_OPTION_AT: Final = OPTIONS_LENGTH_AT + 2
_SUBNET_CODE: Final = OptionCode.SUBNET.to_bytes(2, "big")
_NO_OPTIONS: Final = bytes(2)  # the length of the options of an OPT record without options


def _flags_and_counts(has_opt: bool) -> Iterator[tuple[bytes, bool]]:
    for bits in product((0, RD), (0, _AD), (0, _CD)):
        numbers = (sum(bits), 1, 0, 0, has_opt)
        yield b"".join(number.to_bytes(2, "big") for number in numbers), bool(bits[0])


def _shapes() -> Iterator[tuple[bytes, int]]:
    for head, recurse in _flags_and_counts(False):
        yield head, int(recurse)
    for (head, recurse), payload, dnssec_ok in product(_flags_and_counts(True), USUAL_PAYLOADS, (False, True)):
        opt = write_opt(Edns(payload, 0, dnssec_ok), 0, payload)
        yield head + opt, 2 * (1 + dnssec_ok) + recurse


def _cookie_shapes() -> Iterator[tuple[bytes, int]]:
    cookies = [write_option(OptionCode.COOKIE, bytes(length)) for length in (CLIENT, CLIENT + SERVER)]
    for (head, recurse), payload, dnssec_ok, cookie in product(
        _flags_and_counts(True), USUAL_PAYLOADS, (False, True), cookies
    ):
        opt = write_opt(Edns(payload, 0, dnssec_ok), 0, payload, cookie)
        yield head + opt[:COOKIE_AT], 2 * (_COOKIE_FORM + dnssec_ok) + recurse


#: Maps all bytes of a query except its id and its question to its response kind, a number below KINDS.
QUERY_SHAPES: Final[Mapping[bytes, int]] = dict(_shapes())
#: The same mapping for queries whose only option is a cookie. The cookie's bytes are left out.
COOKIE_QUERY_SHAPES: Final[Mapping[bytes, int]] = dict(_cookie_shapes())


def subnet_kind(before: bytes, after: bytes) -> int | None:
    """Return the response kind for a query whose only option is a well-formed client subnet, or None for other queries.

    ``before`` contains the flags and counts. ``after`` contains everything that follows the question. The kind is that
    of the query without the option. A client subnet has scope 0 in queries, and in responses, because no answer depends
    on the subnet. The response therefore ends with the bytes from ``OPTIONS_LENGTH_AT`` to the end of the query.
    """
    data = after[COOKIE_AT:]
    option = write_option(OptionCode.SUBNET, data)
    if after[OPTIONS_LENGTH_AT:] != len(option).to_bytes(2, "big") + option or not is_client_subnet(data):
        return None
    return QUERY_SHAPES.get(before + after[:OPTIONS_LENGTH_AT] + _NO_OPTIONS)


def has_subnet_first(query: bytes, end: int) -> bool:
    """Return whether the first option of an OPT record that begins at offset ``end`` of a query is a client subnet."""
    return query[end + _FIRST_OPTION_AT : end + _FIRST_OPTION_AT + 2] == _SUBNET_CODE


def _query_parameters(kind: int) -> tuple[int, Edns | None]:
    form, recurse = divmod(kind, 2)
    edns = Edns(0, 0, dnssec_ok=form % 2 == 0) if form else None
    return RD if recurse else 0, edns


#: By kind: the query flags that a response copies, and the query's OPT record (None if absent)
QUERY_PARAMETERS: Final = tuple(map(_query_parameters, range(KINDS)))
