"""Zone-independent responses: errors, refusals, replies to cookie-only queries, and CHAOS answers. Pure."""

from __future__ import annotations

import struct

from lbdns.answering.dns_constants import AA, CLASS_CH, CLASS_IN, META_TYPES, TRANSFER_TYPES, Rcode, Type
from lbdns.answering.edns import EdnsOptions
from lbdns.answering.message_writer import ResponseBody, without_records
from lbdns.answering.query_reader import Query
from lbdns.config.server_section import ServerConfig
from lbdns.zones.names import from_text

_VERSIONS = frozenset(map(from_text, ("version.bind", "version.server")))
_IDENTITIES = frozenset(map(from_text, ("id.server", "hostname.bind")))


def error_response(query: Query, options: EdnsOptions, server: ServerConfig) -> tuple[ResponseBody, Rcode] | None:
    """Return the body and 12-bit RCODE of a zone-independent response, or None if the response depends on a zone."""
    error = query.error or (Rcode.NOERROR if options.sound else Rcode.FORMERR)
    if not error and not query.question:
        # The query asks only for a cookie (RFC 7873 section 5.4)
        wrong = options.has_server_cookie and not options.valid_cookie
        error = Rcode.FORMERR if not options.asks_cookie else Rcode.BADCOOKIE if wrong else Rcode.NOERROR
        return without_records(error), error
    if not error and query.qclass == CLASS_CH:
        about = about_server(query.qname, query.qtype, server)
        return (about, Rcode.NOERROR) if about else (without_records(Rcode.REFUSED), Rcode.REFUSED)
    if not error and query.qtype == Type.OPT:
        error = Rcode.FORMERR
    elif not error and (query.qclass != CLASS_IN or query.qtype in META_TYPES - TRANSFER_TYPES):
        error = Rcode.REFUSED
    return (without_records(error), error) if error else None


def about_server(qname: bytes, qtype: int, config: ServerConfig) -> ResponseBody | None:
    """Return the server's version or identity (RFC 4892), or None if the requested text is not configured."""
    if qtype not in (Type.TXT, Type.ANY):
        return None
    text = config.version if qname in _VERSIONS else config.identity if qname in _IDENTITIES else ""
    if not text:
        return None
    string = text.encode()
    rdata = bytes((len(string),)) + string
    # The owner is a pointer to the question's name, at offset 12; TTL 0, as in other servers
    return ResponseBody(AA, (1, 0, 0), struct.pack("!HHHIH", 0xC00C, Type.TXT, CLASS_CH, 0, len(rdata)) + rdata)
