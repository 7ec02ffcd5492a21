"""EDNS(0) (RFC 6891): reads the options of a query, and writes the OPT record of the response.

The server supports the options NSID (RFC 5001), COOKIE (RFC 7873), edns-tcp-keepalive (RFC 7828) and client subnet (RFC
7871). Client subnet options in responses have scope 0, unless the answer names a member of a pool with sites. The
padding option is ignored, because padding is useful only with encryption (RFC 7830 section 6). All other options are
ignored and not echoed (RFC 6891 section 6.1.2).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from lbdns.answering import cookies
from lbdns.answering.cookies import ServerCookies
from lbdns.answering.dns_constants import Type

if TYPE_CHECKING:
    import lbdns_native

DO: Final = 0x8000  # DNSSEC OK, RFC 3225
LEAST_PAYLOAD: Final = 512  # bytes that every client accepts (RFC 1035 section 4.2.1)
OUR_PAYLOAD: Final = 1232  # bytes: crosses every path without fragmentation (DNS flag day 2020)
MAX_OPTIONS: Final = 64  # in one query: a dozen are in use; thousands in a TCP message cost milliseconds
KEEPALIVE: Final = 100  # tenths of a second that an idle connection stays open (transport.tcp.IDLE)
_FIXED: Final = struct.Struct("!HHBBHH")  # type, payload size, extended RCODE, version, flags, length
_OPTION: Final = struct.Struct("!HH")  # code, length
#: Maximum address length in bytes, by IANA address family number.
_FAMILIES: Final = {1: 4, 2: 16}
SCOPE_AT: Final = 3  # bytes before the scope in the data of a client subnet option
LONGEST_SUBNET: Final = 24  # bytes: a client subnet option with a whole IPv6 address


class OptionCode(IntEnum):
    NSID = 3
    SUBNET = 8
    COOKIE = 10
    KEEPALIVE = 11


@dataclass(frozen=True, slots=True)
class Edns:
    """The OPT record of a query. ``options`` lists (code, data) pairs in the query's order, including unknown codes."""

    payload: int  # bytes that the client accepts over UDP
    version: int
    dnssec_ok: bool
    options: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class EdnsOptions:
    """The effect of a query's options on its response."""

    written: bytes = b""  # the options of the response's OPT record, in wire form
    sound: bool = True  # false: the response is FORMERR
    asks_cookie: bool = False  # the query has a client cookie
    has_server_cookie: bool = False
    valid_cookie: bool = False  # proves that the client's address is not forged
    subnet: bytes = b""  # the data of the query's client subnet option; empty if there is none
    scope_at: int = 0  # the offset of the option's scope in ``written``

    def with_scope(self, scope: bytes) -> EdnsOptions:
        """Return these options, whose scope is 0, with ``scope`` (one byte) in the client subnet option, if there is
        one."""
        if not self.subnet or scope == b"\0":
            return self
        return replace(self, written=self.written[: self.scope_at] + scope + self.written[self.scope_at + 1 :])


NO_OPTIONS: Final = EdnsOptions()


def read_options(rdata: bytes) -> tuple[tuple[int, bytes], ...] | None:
    """Return an OPT record's options, or None if they are malformed or there are more than MAX_OPTIONS."""
    options: list[tuple[int, bytes]] = []
    at = 0
    while at < len(rdata):
        if at + 4 > len(rdata) or len(options) == MAX_OPTIONS:
            return None
        code, length = _OPTION.unpack_from(rdata, at)
        at += 4
        if at + length > len(rdata):
            return None
        options.append((code, rdata[at : at + length]))
        at += length
    return tuple(options)


def answer_options(
    edns: Edns,
    host: str,
    over_tcp: bool,
    identity: bytes,
    jar: ServerCookies | lbdns_native.ServerCookies | None,
    wall: float,
) -> EdnsOptions:
    """Return how a query's options affect the response. ``host`` is the client's address.

    ``identity`` is the response to the NSID option; if it is empty, NSID is ignored. If ``jar`` is None, the COOKIE
    option is treated as unknown. ``wall`` is in Unix seconds.
    """
    if not edns.options:
        return NO_OPTIONS
    first: dict[int, bytes] = {}
    for code, data in edns.options:
        first.setdefault(code, data)  # the first of several cookies counts (RFC 7873 section 5.2); likewise for others
    written, subnet, scope_at = b"", b"", 0
    if OptionCode.NSID in first and identity:
        written += write_option(OptionCode.NSID, identity)
    if OptionCode.SUBNET in first:
        if not is_client_subnet(first[OptionCode.SUBNET]):
            return EdnsOptions(sound=False)
        subnet, scope_at = first[OptionCode.SUBNET], len(written) + _OPTION.size + SCOPE_AT
        written += write_option(OptionCode.SUBNET, subnet[:3] + b"\0" + subnet[4:])
    if OptionCode.KEEPALIVE in first and over_tcp:
        written += write_option(OptionCode.KEEPALIVE, KEEPALIVE.to_bytes(2, "big"))
    cookie = first.get(OptionCode.COOKIE)
    if cookie is None or jar is None:
        return EdnsOptions(written, subnet=subnet, scope_at=scope_at)
    if len(cookie) not in cookies.LENGTHS:
        return EdnsOptions(sound=False)
    answer, valid = jar.answer(cookie, host, wall)
    # Last: a precompiled response ends where the cookie begins
    written += write_option(OptionCode.COOKIE, answer)
    return EdnsOptions(written, True, True, len(cookie) > cookies.CLIENT, valid, subnet, scope_at)


def write_option(code: int, data: bytes) -> bytes:
    return _OPTION.pack(code, len(data)) + data


def write_opt(edns: Edns, rcode: int, payload: int = OUR_PAYLOAD, options: bytes = b"") -> bytes:
    """Return the OPT record of the response to a query whose OPT record is ``edns``.

    The DO bit is copied from the query (RFC 3225 section 3). ``rcode`` has 12 bits; the OPT record contains only the
    upper 8 bits. ``payload`` is in bytes; ``options`` are in wire form.
    """
    flags = DO if edns.dnssec_ok else 0
    return b"\0" + _FIXED.pack(Type.OPT, payload, rcode >> 4, 0, flags, len(options)) + options


def is_client_subnet(data: bytes) -> bool:
    """Return whether a query's client subnet option is well-formed (RFC 7871 section 6).

    The scope must be 0, the address must have exactly the bytes of the prefix, and no bits may be set beyond the
    prefix. Prefix length 0 asks servers not to use the client's address (RFC 7871 section 7.1.2), so the family does
    not matter; `dig +subnet=0`, for example, sends family 0.
    """
    if len(data) < 4:
        return False
    family, source, scope = struct.unpack_from("!HBB", data)
    address = data[4:]
    size = _FAMILIES.get(family) if source else 0
    if size is None or scope or source > 8 * size or len(address) != -(-source // 8):
        return False
    return not (source % 8 and address[-1] & (0xFF >> source % 8))
