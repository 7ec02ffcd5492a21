"""EDNS(0) (RFC 6891): reading the OPT record of a query and writing the one of the response. Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from lbdns.answering.constants import Type

DO: Final = 0x8000  # DNSSEC OK, RFC 3225
LEAST_PAYLOAD: Final = 512  # bytes: what every client takes (RFC 1035 section 4.2.1)
OUR_PAYLOAD: Final = 1232  # bytes: passes every path without fragments (DNS flag day 2020)
MAX_OPTIONS: Final = 64  # of one query: a dozen are in use; thousands in a TCP message cost milliseconds
_FIXED: Final = struct.Struct("!HHBBHH")  # type, payload size, extended RCODE, version, flags, length


@dataclass(frozen=True, slots=True)
class Edns:
    """What a query says by its OPT record. ``options`` are (code, data) in order; the unknown are ignored."""

    payload: int  # bytes the client takes over UDP
    version: int
    dnssec_ok: bool
    options: tuple[tuple[int, bytes], ...] = ()


def read_options(rdata: bytes) -> tuple[tuple[int, bytes], ...] | None:
    """The options of an OPT record, or None if they don't fill it exactly or are more than anybody means."""
    options: list[tuple[int, bytes]] = []
    at = 0
    while at < len(rdata):
        if at + 4 > len(rdata) or len(options) == MAX_OPTIONS:
            return None
        code, length = struct.unpack_from("!HH", rdata, at)
        at += 4
        if at + length > len(rdata):
            return None
        options.append((code, rdata[at : at + length]))
        at += length
    return tuple(options)


def write_opt(edns: Edns, rcode: int, payload: int = OUR_PAYLOAD, options: bytes = b"") -> bytes:
    """The OPT record of the response to a query with ``edns``: DO as asked (RFC 3225 section 3), other flags clear.

    ``rcode`` is the whole one; its upper eight bits stand here. ``options`` are in wire form.
    """
    flags = DO if edns.dnssec_ok else 0
    return b"\0" + _FIXED.pack(Type.OPT, payload, rcode >> 4, 0, flags, len(options)) + options
