"""Responses finished before they are asked for: what the short way of a query finds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lbdns.answering.cookies import CLIENT, SERVER
from lbdns.answering.edns import LEAST_PAYLOAD, Edns
from lbdns.answering.entry import Entry, Variant, assemble, truncated
from lbdns.answering.fixed import NOTHING
from lbdns.answering.message import Body
from lbdns.answering.options import Code, write_option
from lbdns.answering.query import Query
from lbdns.answering.ways import KINDS, asked_like, has_cookie

_NO_COOKIE: Final = write_option(Code.COOKIE, bytes(CLIENT + SERVER))


def finished(entry: Entry, query: Query, with_cookie: bool, payload: int) -> Sequence[Variant]:
    """The responses for the short way, if each fits every client over any transport; else none.

    One with a cookie ends where the cookie begins.
    """
    variants = [_variant(body, query.flags, query.edns, with_cookie, payload) for body in entry.bodies]
    around = 2 + len(query.question) + (CLIENT + SERVER if with_cookie else 0)
    return () if any(around + len(head) + len(tail) > LEAST_PAYLOAD for head, tail in variants) else variants


def cut_variants(payload: int) -> list[Variant]:
    """By the kind of a query, the response that says "ask over TCP"; one with a cookie ends where that begins."""
    nothing = truncated(NOTHING)
    return [_variant(nothing, *asked_like(kind), has_cookie(kind), payload) for kind in range(KINDS)]


def _variant(body: Body, flags: int, edns: Edns | None, with_cookie: bool, payload: int) -> Variant:
    head, tail = assemble(body, flags, edns, None, payload, _NO_COOKIE if with_cookie else b"")
    return head, tail[: -CLIENT - SERVER] if with_cookie else tail
