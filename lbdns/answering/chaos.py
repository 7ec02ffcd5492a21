"""Questions about the server itself, in class CHAOS (RFC 4892): answered only if the operator said what with. Pure."""

from __future__ import annotations

import struct

from lbdns.answering.constants import AA, CLASS_CH, Type
from lbdns.answering.message import Body
from lbdns.config.server import ServerConfig
from lbdns.names import from_text

_VERSIONS = frozenset(map(from_text, ("version.bind", "version.server")))
_IDENTITIES = frozenset(map(from_text, ("id.server", "hostname.bind")))


def about_server(qname: bytes, qtype: int, config: ServerConfig) -> Body | None:
    """The answer to a question of class CH, or None if we don't say."""
    if qtype not in (Type.TXT, Type.ANY):
        return None
    text = config.version if qname in _VERSIONS else config.identity if qname in _IDENTITIES else ""
    if not text:
        return None
    string = text.encode()
    rdata = bytes((len(string),)) + string
    # The owner is the question's name, at offset 12; TTL 0, as others have it
    return Body(AA, (1, 0, 0), struct.pack("!HHHIH", 0xC00C, Type.TXT, CLASS_CH, 0, len(rdata)) + rdata)
