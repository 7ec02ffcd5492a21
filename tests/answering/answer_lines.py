"""The records that answers for the zone hobbit contain, in the form in which tests compare them."""

from __future__ import annotations

import dns.flags
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset

from lbdns.answering.responder import Responder
from lbdns.policies.plan import Plan
from tests.answering.asking import Line, lines

SOA: Line = ("hobbit.", "SOA", 300, "ns.hobbit. hostmaster.hobbit. 7 3600 900 604800 300")
BILBO, FRODO, GANDALF = range(3)


def always(responder: Responder, member: int, policy: str = "best", pool_name: str = "web") -> Responder:
    """Make the policy select only this member from now on."""
    responder.table.cursors[pool_name, policy].set_plan(Plan((member,)))
    return responder


def alias(member: str, owner: str = "best", ttl: int = 0) -> Line:
    return (f"{owner}.hobbit.", "CNAME", ttl, f"{member}.hobbit.")


def a(owner: str, last: int, ttl: int = 0) -> Line:
    return (f"{owner}.hobbit.", "A", ttl, f"127.0.0.{last}")


def aaaa(owner: str, last: int, ttl: int = 0) -> Line:
    return (f"{owner}.hobbit.", "AAAA", ttl, f"::{last}")


def folded(section: list[dns.rrset.RRset]) -> list[Line]:
    """Return the records in lower case, because a compressed name takes over the question's letter case."""
    return [(owner.lower(), rtype, ttl, rdata.lower()) for owner, rtype, ttl, rdata in lines(section)]
