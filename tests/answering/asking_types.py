"""Sends queries of several types on both planes, and returns the member that each response names."""

from __future__ import annotations

import itertools
from typing import Final

import dns.rdatatype
import pytest

from lbdns.answering.plane import Plane
from lbdns.answering.responder import Responder
from tests.answering.asking import UDP, make_query, make_responder, read
from tests.answering.farms import hobbit, pool
from tests.planes import PLANES

SPAN: Final = 2.0  # seconds: the default
A, AAAA, HTTPS = range(3)
ONE, OTHER = "192.0.2.1", "2001:db8::1"

on_both = pytest.mark.parametrize("plane", PLANES)
_idents = itertools.count()


def new_responder(plane: Plane, **of_pool: float) -> Responder:
    responder = make_responder(hobbit(pool(**of_pool)), plane)  # type: ignore[arg-type]
    responder.tick(1000.0, 0.0)
    return responder


def ask(
    responder: Responder, host: str, rtype: str, name: str = "best.hobbit", transport: int = UDP, port: int = 0
) -> str:
    """Send a new query, and return the member in the response. The source port is new unless ``port`` is given."""
    ident = next(_idents) % 65_536
    query = make_query(name, rtype, ident=ident)
    message = read(responder.respond(query, (host, port or 1024 + ident % 60_000), transport))
    aliases = [rrset for rrset in message.answer if rrset.rdtype == dns.rdatatype.CNAME]
    return str(aliases[-1][0].target).partition(".")[0]
