"""Finding what a zone says about a name and a type (RFC 1034 section 4.3.2). Pure.

Wildcards as in RFC 4592, DNAME as in RFC 6672, empty non-terminals as in RFC 8020.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lbdns import names
from lbdns.answering.constants import Rcode, Type
from lbdns.answering.message import Answer, Record
from lbdns.zonefile import Node, RRset, Zone

MAX_CHAIN: Final = 16  # aliases followed for one question; a longer chain is a mistake or an attack


class ZoneIndex:
    """A zone prepared for look-ups. ``dynamic`` are the owner names that pools answer for."""

    def __init__(self, zone: Zone, dynamic: Iterable[bytes]) -> None:
        self.zone = zone
        self.dynamic = frozenset(dynamic)
        #: Every name that exists, empty non-terminals too (RFC 8020)
        self.names: frozenset[bytes] = frozenset(
            above
            for owner in (*zone.nodes, *self.dynamic)
            for above in names.suffixes(owner)
            if len(above) >= len(zone.origin)
        )
        self.negative = (negative_soa(zone),)

    def node(self, name: bytes) -> Node | None:
        return self.zone.nodes.get(name)


def negative_soa(zone: Zone) -> Record:
    """The SOA as it stands in negative answers: TTL = min(its TTL, its minimum) (RFC 2308 section 3)."""
    rdata = zone.soa.rdatas[0]
    minimum = int.from_bytes(rdata[-4:], "big")
    return Record(zone.origin, Type.SOA, min(zone.soa.ttl, minimum), rdata)


@dataclass(frozen=True, slots=True)
class Dynamic:
    """The question is about a name of a pool, or leads there by ``aliases``."""

    owner: bytes
    aliases: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class _Alias:
    records: tuple[Record, ...]
    target: bytes


def lookup(index: ZoneIndex, qname: bytes, qtype: int, follow_dynamic: bool = True) -> Answer | Dynamic:
    """What to say about ``qname`` (lower-case wire form, at or below the zone's origin) and ``qtype``.

    Aliases are followed inside the zone; targets outside it are left to whoever asked.
    """
    aliases: tuple[Record, ...] = ()
    seen: set[bytes] = set()
    name = qname
    while True:
        found = Dynamic(name) if follow_dynamic and name in index.dynamic else _step(index, name, qtype)
        if isinstance(found, Dynamic):
            return Dynamic(name, aliases)
        if isinstance(found, Answer):
            return _behind(aliases, found)
        seen.add(name)
        # A DNAME that the chain meets again stands there already
        aliases += tuple(record for record in found.records if record not in aliases)
        name = found.target.lower()
        if name in seen or len(seen) > MAX_CHAIN or not names.is_below(name, index.zone.origin):
            return Answer(answer=aliases)


def _behind(aliases: tuple[Record, ...], found: Answer) -> Answer:
    """``found`` as the end of a chain; the first name is ours, so the answer is authoritative in any case."""
    if not aliases:
        return found
    return Answer(found.rcode, True, aliases + found.answer, found.authority, found.additional)


def _step(index: ZoneIndex, name: bytes, qtype: int) -> Answer | _Alias:
    origin = index.zone.origin
    above = [ancestor for ancestor in names.suffixes(name) if len(ancestor) >= len(origin)]
    for ancestor in reversed(above):  # from the origin, which may have a DNAME too, down to the name itself
        node = index.node(ancestor)
        if node is None:
            continue
        if Type.NS in node and ancestor != origin and not (ancestor == name and qtype == Type.DS):
            return _referral(index, ancestor, node[Type.NS])
        if Type.DNAME in node and ancestor != name:
            return _redirect(name, ancestor, node[Type.DNAME])
    node = index.node(name)
    if node is not None:
        return _at_node(index, node, name, qtype)
    if name in index.names:
        return Answer(authority=index.negative)
    encloser = next(ancestor for ancestor in above if ancestor in index.names)
    wildcard = index.node(b"\1*" + encloser)
    if wildcard is not None:
        return _at_node(index, wildcard, name, qtype)
    if b"\1*" + encloser in index.names:
        return Answer(authority=index.negative)
    return Answer(Rcode.NXDOMAIN, authority=index.negative)


def records(owner: bytes, rtype: int, rrset: RRset) -> tuple[Record, ...]:
    """The records of an RRset under ``owner``."""
    return tuple(Record(owner, rtype, rrset.ttl, rdata) for rdata in rrset.rdatas)


def _at_node(index: ZoneIndex, node: Node, name: bytes, qtype: int) -> Answer | _Alias:
    if qtype in node:
        return Answer(answer=records(name, qtype, node[qtype]))
    if qtype == Type.ANY:
        # One RRset is a valid answer and no amplifier (RFC 8482 section 4.1)
        rtype = next(iter(node))
        return Answer(answer=records(name, rtype, node[rtype]))
    if Type.CNAME in node:
        return _Alias(records(name, Type.CNAME, node[Type.CNAME]), node[Type.CNAME].rdatas[0])
    return Answer(authority=index.negative)


def _referral(index: ZoneIndex, cut: bytes, servers: RRset) -> Answer:
    """NS of the delegation, its DS if there is one, and the addresses of servers below a cut (glue)."""
    node = index.node(cut) or {}
    authority = records(cut, Type.NS, servers)
    if Type.DS in node:
        authority += records(cut, Type.DS, node[Type.DS])
    glue: tuple[Record, ...] = ()
    for server in servers.rdatas:
        addresses = index.node(server.lower()) or {}
        for rtype in (Type.A, Type.AAAA):
            if rtype in addresses:
                glue += records(server.lower(), rtype, addresses[rtype])
    return Answer(authoritative=False, authority=authority, additional=glue)


def _redirect(name: bytes, owner: bytes, dname: RRset) -> Answer | _Alias:
    """The DNAME and the CNAME that follows from it (RFC 6672 section 3.1); YXDOMAIN if that would be too long."""
    target = name[: -len(owner)] + dname.rdatas[0]
    found = records(owner, Type.DNAME, dname)
    if len(target) > names.MAX_NAME:
        return Answer(Rcode.YXDOMAIN, answer=found)
    return _Alias((*found, Record(name, Type.CNAME, dname.ttl, target)), target)
