"""Requests explanations from a responder (``explain.NAME TXT``) and from an explainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import dns.message
import dns.name
import dns.rdatatype

from lbdns.answering.responder import Client, Responder
from lbdns.model.farm import Farm, Pool
from tests.answering.asking import UDP, make_query, read
from tests.answering.configured import at_work
from tests.answering.farms import MEMBERS, hobbit, pool

HERE: Final[Client] = ("127.0.0.1", 4000)
ELSEWHERE: Final[Client] = ("192.0.2.1", 4000)
POOLS: Final = (pool(), pool("apex", names={"@": "best", "at": "weighted"}, answer="address"))
FARM: Final = hobbit(*POOLS)


def member(name: str, **more: Any) -> dict[str, Any]:
    usual = {
        "name": name, "probability": 0.0, "score": 66, "score_parts": {}, "capacity": 120.4, "left": 1.0, "load": 3.0,
        "charge": 0.0, "credit": -0.0, "state": "usable", "reason": "", "guard": "", "suspect": False, "age_s": 0.4,
    }  # fmt: skip
    return {**usual, **more}


def document(owner: str = "best", members: Sequence[Mapping[str, Any]] = (), **more: Any) -> dict[str, Any]:
    usual = {
        "next": "gandalf", "why": "because", "policy": "best", "pool": owner, "answers_per_s": 0.2,
        "requests_per_s": 12.0, "interval_s": 1.0, "fail_open": False, "fail_open_reason": "", "measured": True,
        "worker": 0, "workers": 1, "members": members or [member(name) for name in MEMBERS],
    }  # fmt: skip
    return {**usual, **more}


def explained(pool: Pool, owner: str) -> Mapping[str, Any] | None:
    """Return a document whose "pool name" is the pool's name followed by the requested owner name."""
    return document(f"{pool.name}/{owner}")


def answering(farm: Farm = FARM, secrets: tuple[bytes, ...] = ()) -> Responder:
    responder = at_work(farm, secrets)
    responder.explainer = explained
    return responder


def ask(
    responder: Responder, name: str, rtype: str = "TXT", client: Client = HERE, transport: int = UDP, **way: Any
) -> dns.message.Message:
    query = make_query(dns.name.from_text(name), rtype, **way)
    wire = responder.respond(query, client, transport)
    assert isinstance(wire, bytes)
    assert wire[12 : 12 + len(query) - 12][: len(name) + 1] == query[12:][: len(name) + 1], "the case is kept"
    return read(wire)


def told(message: dns.message.Message) -> list[str]:
    """Return the texts of a response's TXT records in order, with each record's strings joined."""
    (rrset,) = message.answer
    assert (rrset.rdtype, rrset.ttl) == (dns.rdatatype.TXT, 0)
    return [b"".join(rdata.strings).decode("ascii") for rdata in rrset]
