"""What is said to a query without a look at any zone: errors, refusals, cookies alone, the server itself. Pure."""

from __future__ import annotations

from typing import Final

from lbdns.answering.chaos import about_server
from lbdns.answering.constants import CLASS_CH, CLASS_IN, META_TYPES, TRANSFER_TYPES, Rcode, Type
from lbdns.answering.message import Body
from lbdns.answering.options import Options
from lbdns.answering.query import Query
from lbdns.config.server import ServerConfig


def said(rcode: Rcode) -> Body:
    """A response without records."""
    return Body(rcode & 0xF, (0, 0, 0), b"")


#: What a response that is cut says, whatever was asked.
NOTHING: Final = said(Rcode.NOERROR)


def fixed_answer(query: Query, options: Options, server: ServerConfig) -> tuple[Body, Rcode] | None:
    """What is said without a look at any zone, if anything."""
    error = query.error or (Rcode.NOERROR if options.sound else Rcode.FORMERR)
    if not error and not query.question:
        # It asks for a cookie alone (RFC 7873 section 5.4)
        wrong = options.has_server_cookie and not options.valid_cookie
        error = Rcode.FORMERR if not options.asks_cookie else Rcode.BADCOOKIE if wrong else Rcode.NOERROR
        return said(error), error
    if not error and query.qclass == CLASS_CH:
        about = about_server(query.qname, query.qtype, server)
        return (about, Rcode.NOERROR) if about else (said(Rcode.REFUSED), Rcode.REFUSED)
    rcode = error or _refusal(query)
    return (said(rcode), rcode) if rcode else None


def _refusal(query: Query) -> Rcode | None:
    """Why a sound query is not looked up at all."""
    if query.qtype == Type.OPT:
        return Rcode.FORMERR
    if query.qclass != CLASS_IN or query.qtype in META_TYPES - TRANSFER_TYPES:
        return Rcode.REFUSED
    return None
