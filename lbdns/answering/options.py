"""EDNS options: what those of a query mean to us, and which ones the response carries. Pure.

Answered: NSID (RFC 5001), COOKIE (RFC 7873), edns-tcp-keepalive (RFC 7828), client subnet with scope 0, because no
answer depends on it (RFC 7871). Never sent: padding, which makes sense under encryption only (RFC 7830 section 6).
Everything else is ignored and not echoed (RFC 6891 section 6.1.2).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from lbdns.answering import cookies
from lbdns.answering.cookies import CookieJar
from lbdns.answering.edns import Edns


class Code(IntEnum):
    NSID = 3
    SUBNET = 8
    COOKIE = 10
    KEEPALIVE = 11


KEEPALIVE: Final = 100  # tenths of a second: how long an idle connection stays (server.tcp.IDLE)
_HEADER: Final = struct.Struct("!HH")
#: Address bytes at most by family (IANA address family numbers); 0 stands for no address at all.
_FAMILIES: Final = {0: 0, 1: 4, 2: 16}


@dataclass(frozen=True, slots=True)
class Options:
    """``written`` goes into the OPT of the response. ``sound`` is false if the query deserves a FORMERR."""

    written: bytes = b""
    sound: bool = True
    asks_cookie: bool = False  # has a client cookie
    has_server_cookie: bool = False
    valid_cookie: bool = False  # the client really has its address


NONE: Final = Options()


def write_option(code: int, data: bytes) -> bytes:
    return _HEADER.pack(code, len(data)) + data


def answer_options(
    edns: Edns, host: str, over_tcp: bool, identity: bytes, jar: CookieJar | None, wall: float
) -> Options:
    """What to do about the options of a query from ``host``; without a ``jar`` nobody gets cookies."""
    if not edns.options:
        return NONE
    first: dict[int, bytes] = {}
    for code, data in edns.options:
        first.setdefault(code, data)  # of several cookies the first counts (RFC 7873 section 5.2), and so with others
    written = b""
    if Code.NSID in first and identity:
        written += write_option(Code.NSID, identity)
    if Code.SUBNET in first:
        if not _is_subnet(first[Code.SUBNET]):
            return Options(sound=False)
        subnet = first[Code.SUBNET]
        written += write_option(Code.SUBNET, subnet[:3] + b"\0" + subnet[4:])
    if Code.KEEPALIVE in first and over_tcp:
        written += write_option(Code.KEEPALIVE, KEEPALIVE.to_bytes(2, "big"))
    cookie = first.get(Code.COOKIE)
    if cookie is None or jar is None:
        return Options(written)
    if len(cookie) not in cookies.LENGTHS:
        return Options(sound=False)
    answer, valid = jar.answer(cookie, host, wall)
    # Last: a compiled answer ends where the cookie begins
    written += write_option(Code.COOKIE, answer)
    return Options(written, True, True, len(cookie) > cookies.CLIENT, valid)


def _is_subnet(data: bytes) -> bool:
    """Whether a client subnet option of a query is well-formed (RFC 7871 section 6): no scope, no stray bits."""
    if len(data) < 4:
        return False
    family, source, scope = struct.unpack_from("!HBB", data)
    size = _FAMILIES.get(family)
    address = data[4:]
    if size is None or scope or source > 8 * size or len(address) != -(-source // 8):
        return False
    return not (source % 8 and address[-1] & (0xFF >> source % 8))
