"""Queries of class CHAOS for the server's version and identity (RFC 4892): answered only if configured. Pure."""

from __future__ import annotations

import struct

from lbdns.answering.dns_constants import AA, CLASS_CH, Type
from lbdns.answering.message_writer import ResponseBody
from lbdns.config.server_section import ServerConfig
from lbdns.zones.names import from_text

_VERSIONS = frozenset(map(from_text, ("version.bind", "version.server")))
_IDENTITIES = frozenset(map(from_text, ("id.server", "hostname.bind")))


def about_server(qname: bytes, qtype: int, config: ServerConfig) -> ResponseBody | None:
    """Return the answer to a question of class CH; None if the configuration has no text for it."""
    if qtype not in (Type.TXT, Type.ANY):
        return None
    text = config.version if qname in _VERSIONS else config.identity if qname in _IDENTITIES else ""
    if not text:
        return None
    string = text.encode()
    rdata = bytes((len(string),)) + string
    # The owner is a pointer to the question's name, at offset 12; TTL 0, as in other servers
    return ResponseBody(AA, (1, 0, 0), struct.pack("!HHHIH", 0xC00C, Type.TXT, CLASS_CH, 0, len(rdata)) + rdata)
