"""Responses that depend on no zone: errors, refusals, queries for a cookie alone, questions about the server."""

from __future__ import annotations

from lbdns.answering.chaos_queries import about_server
from lbdns.answering.dns_constants import CLASS_CH, CLASS_IN, META_TYPES, TRANSFER_TYPES, Rcode, Type
from lbdns.answering.edns import EdnsOptions
from lbdns.answering.message_writer import ResponseBody, without_records
from lbdns.answering.query_reader import Query
from lbdns.config.server_section import ServerConfig


def error_response(query: Query, options: EdnsOptions, server: ServerConfig) -> tuple[ResponseBody, Rcode] | None:
    """Return the body and the whole RCODE of the response that depends on no zone; None if a zone must answer."""
    error = query.error or (Rcode.NOERROR if options.sound else Rcode.FORMERR)
    if not error and not query.question:
        # It asks for a cookie alone (RFC 7873 section 5.4)
        wrong = options.has_server_cookie and not options.valid_cookie
        error = Rcode.FORMERR if not options.asks_cookie else Rcode.BADCOOKIE if wrong else Rcode.NOERROR
        return without_records(error), error
    if not error and query.qclass == CLASS_CH:
        about = about_server(query.qname, query.qtype, server)
        return (about, Rcode.NOERROR) if about else (without_records(Rcode.REFUSED), Rcode.REFUSED)
    rcode = error or _refusal(query)
    return (without_records(rcode), rcode) if rcode else None


def _refusal(query: Query) -> Rcode | None:
    """Return the RCODE that refuses a well-formed query without a look-up; None if a zone must answer."""
    if query.qtype == Type.OPT:
        return Rcode.FORMERR
    if query.qclass != CLASS_IN or query.qtype in META_TYPES - TRANSFER_TYPES:
        return Rcode.REFUSED
    return None
