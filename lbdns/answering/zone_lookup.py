"""Zone lookup: finds a zone's records, or the negative answer, for a name and type (RFC 1034 section 4.3.2). Pure.

Wildcards follow RFC 4592, DNAME records follow RFC 6672, and empty non-terminals follow RFC 8020.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from lbdns.answering.dns_constants import Rcode, Type
from lbdns.answering.message_writer import AnswerSections, Record
from lbdns.answering.query_reader import skip_name
from lbdns.model.farm import Pool
from lbdns.zones import names
from lbdns.zones.master_file import Node, RRset, Zone

#: The types whose records name a host that the client will connect to next, and the name's position in the rdata.
TARGETS: Final[Mapping[int, int]] = {
    Type.NS: 0, Type.MD: 0, Type.MF: 0, Type.MB: 0, Type.MX: 2, Type.AFSDB: 2, Type.RT: 2, Type.KX: 2, Type.SRV: 6,
    Type.SVCB: 2, Type.HTTPS: 2,
}  # fmt: skip
MAX_TARGETS: Final = 64  # of one RRset whose addresses are looked up; no client needs more
MAX_CHAIN: Final = 16  # aliases followed for one question; a longer chain is an error in the zone or an attack


class ZoneIndex:
    """A zone prepared for lookups. ``pool_owners`` contains the owner names that belong to pools."""

    def __init__(self, zone: Zone, pool_owners: Iterable[bytes]) -> None:
        self.zone = zone
        self.pool_owners = frozenset(pool_owners)
        #: Every name that exists, including empty non-terminals (RFC 8020)
        self.names: frozenset[bytes] = frozenset(
            above for owner in (*zone.nodes, *self.pool_owners) for above in _ancestors(owner, zone.origin)
        )
        self.negative = (negative_soa(zone),)

    def node(self, name: bytes) -> Node | None:
        return self.zone.nodes.get(name)


def negative_soa(zone: Zone) -> Record:
    """Return the SOA record for negative answers, with its TTL capped at its MINIMUM field (RFC 2308 section 3)."""
    rdata = zone.soa.rdatas[0]
    minimum = int.from_bytes(rdata[-4:], "big")
    return Record(zone.origin, Type.SOA, min(zone.soa.ttl, minimum), rdata)


@dataclass(frozen=True, slots=True)
class PoolMatch:
    """The result of a lookup that ends at a pool's name, ``owner``, possibly via ``aliases``."""

    owner: bytes
    aliases: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class _Alias:
    records: tuple[Record, ...]
    target: bytes


def look_up(index: ZoneIndex, qname: bytes, qtype: int, follow_pools: bool = True) -> AnswerSections | PoolMatch:
    """Look up ``qname`` (lower-case wire form, at or below the zone's origin) and ``qtype``.

    Aliases are followed within the zone; an alias whose target is outside the zone ends the answer. If ``follow_pools``
    is false, a pool's name is looked up in the zone file like any other name, and the result is never a PoolMatch.
    """
    aliases: tuple[Record, ...] = ()
    seen: set[bytes] = set()
    name = qname
    while True:
        found = PoolMatch(name) if follow_pools and name in index.pool_owners else _step(index, name, qtype)
        if isinstance(found, PoolMatch):
            return PoolMatch(name, aliases)
        if isinstance(found, AnswerSections):
            return _after_aliases(aliases, found)
        if len(seen) == MAX_CHAIN:
            return AnswerSections(answer=aliases)
        seen.add(name)
        # The chain may pass the same DNAME twice, but the answer has it once
        aliases += tuple(record for record in found.records if record not in aliases)
        name = found.target.lower()
        if name in seen or not names.is_below(name, index.zone.origin):
            return AnswerSections(answer=aliases)


def _after_aliases(aliases: tuple[Record, ...], found: AnswerSections) -> AnswerSections:
    """Return ``aliases`` followed by ``found``.

    An answer with aliases is authoritative, because its first name is in our zone.
    """
    if not aliases:
        return found
    return replace(found, authoritative=True, answer=aliases + found.answer)


def _step(index: ZoneIndex, name: bytes, qtype: int) -> AnswerSections | _Alias:
    origin = index.zone.origin
    above = _ancestors(name, origin)
    for ancestor in reversed(above):  # from the origin, which may have a DNAME itself, down to the name
        node = index.node(ancestor)
        if node is None:
            continue
        if Type.NS in node and ancestor != origin and not (ancestor == name and qtype == Type.DS):
            return _referral(index, ancestor, node[Type.NS])
        if Type.DNAME in node and ancestor != name:
            return _redirect(name, ancestor, node[Type.DNAME], qtype)
    node = index.node(name)
    if node is not None:
        return _at_node(index, node, name, qtype)
    if name in index.names:
        return AnswerSections(authority=index.negative)
    encloser = next(ancestor for ancestor in above if ancestor in index.names)
    wildcard = index.node(b"\1*" + encloser)
    if wildcard is not None:
        return _at_node(index, wildcard, name, qtype)
    if b"\1*" + encloser in index.names:
        return AnswerSections(authority=index.negative)
    return AnswerSections(Rcode.NXDOMAIN, authority=index.negative)


def _ancestors(name: bytes, origin: bytes) -> list[bytes]:
    found, at = [], 0
    while len(name) - at >= len(origin):
        found.append(name[at:])
        at += 1 + name[at]
    return found


def records(owner: bytes, rtype: int, rrset: RRset) -> tuple[Record, ...]:
    """Return an RRset's records with ``owner`` as their owner name."""
    return tuple(Record(owner, rtype, rrset.ttl, rdata) for rdata in rrset.rdatas)


def _at_node(index: ZoneIndex, node: Node, name: bytes, qtype: int) -> AnswerSections | _Alias:
    if qtype in node:
        optional = tuple(_target_addresses(index, name, qtype, node[qtype])) if qtype in TARGETS else ()
        return AnswerSections(answer=records(name, qtype, node[qtype]), optional=optional)
    if qtype == Type.ANY:
        # One RRset is a valid answer and amplifies little (RFC 8482 section 4.1)
        rtype = next(iter(node))
        return AnswerSections(answer=records(name, rtype, node[rtype]))
    if Type.CNAME in node:
        return _Alias(records(name, Type.CNAME, node[Type.CNAME]), node[Type.CNAME].rdatas[0])
    return AnswerSections(authority=index.negative)


def _target_addresses(index: ZoneIndex, owner: bytes, rtype: int, rrset: RRset) -> Iterator[tuple[Record, ...]]:
    """Yield the address RRsets of the hosts that the records name, for the additional section.

    Hosts below a delegation are included only for NS records; their addresses are glue, not authoritative data. No
    addresses are returned for a pool's name, because only a query for that name selects a member.
    """
    at = TARGETS[rtype]
    found = [rdata[at : skip_name(rdata, at)].lower() for rdata in rrset.rdatas[:MAX_TARGETS]]
    if rtype in (Type.SVCB, Type.HTTPS):
        # In ServiceMode, the root stands for the owner (RFC 9460 section 2.5.2); in AliasMode, for no host at all
        found = [
            owner if target == names.ROOT and rdata[:at] != b"\0\0" else target
            for target, rdata in zip(found, rrset.rdatas, strict=False)
        ]
    for target in dict.fromkeys(found):
        if _is_delegated(index, target):
            yield from _glue(index, target) if rtype == Type.NS else ()
        else:
            yield from _addresses(index, target)


def _addresses(index: ZoneIndex, name: bytes) -> Iterator[tuple[Record, ...]]:
    """Yield the A and AAAA RRsets of a name that is not delegated, or none for an alias or a name outside the zone."""
    if not names.is_below(name, index.zone.origin) or name in index.pool_owners:
        return
    for rtype in (Type.A, Type.AAAA):
        found = _step(index, name, rtype)
        if isinstance(found, AnswerSections) and found.answer:
            yield found.answer


def _is_delegated(index: ZoneIndex, name: bytes) -> bool:
    origin = index.zone.origin
    return names.is_below(name, origin) and any(
        Type.NS in (index.node(ancestor) or ()) for ancestor in _ancestors(name, origin)[:-1]
    )


def _glue(index: ZoneIndex, name: bytes) -> Iterator[tuple[Record, ...]]:
    node = index.node(name) or {}
    for rtype in (Type.A, Type.AAAA):
        if rtype in node:
            yield records(name, rtype, node[rtype])


def _referral(index: ZoneIndex, cut: bytes, servers: RRset) -> AnswerSections:
    """Return the NS and DS records of the delegation at ``cut``, and its name servers' addresses.

    All glue is always included (RFC 9471). The address of a name server that is not below a delegation is not glue; it
    is optional, because clients can query for it separately.
    """
    node = index.node(cut) or {}
    dnssec = records(cut, Type.DS, node[Type.DS]) if Type.DS in node else ()
    glue: list[Record] = []
    optional: list[tuple[Record, ...]] = []
    for server in map(bytes.lower, servers.rdatas):
        if _is_delegated(index, server):
            glue += chain.from_iterable(_glue(index, server))
        else:
            optional += _addresses(index, server)
    return AnswerSections(
        authoritative=False,
        authority=records(cut, Type.NS, servers),
        additional=tuple(glue),
        dnssec=dnssec,
        optional=tuple(optional),
    )


def _redirect(name: bytes, owner: bytes, dname: RRset, qtype: int) -> AnswerSections | _Alias:
    """Return the DNAME and the synthesized CNAME (RFC 6672 section 3.1), or YXDOMAIN if the target is too long.

    A query for a CNAME is answered with the synthesized CNAME, which is not followed (RFC 6672 section 3.2).
    """
    target = name[: -len(owner)] + dname.rdatas[0]
    found = records(owner, Type.DNAME, dname)
    if len(target) > names.MAX_NAME:
        return AnswerSections(Rcode.YXDOMAIN, answer=found)
    found += (Record(name, Type.CNAME, dname.ttl, target),)
    return AnswerSections(answer=found) if qtype == Type.CNAME else _Alias(found, target)


def pool_answer(index: ZoneIndex, pool: Pool, match: PoolMatch, qtype: int) -> Callable[[int], AnswerSections]:
    """Return a function that returns the answer to a question which names the member with the given index."""
    answer_for = _address_answer if _has_addresses(index, pool, match) else _alias_answer
    ttl, members = _address_ttl(index, pool), pool.selectable
    return lambda member: answer_for(index, ttl, members[member].owner, match, qtype)


def names_member(index: ZoneIndex, pool: Pool, match: PoolMatch, qtype: int) -> bool:
    """Return whether the answer to a question for type ``qtype`` names a member.

    If the pool's own name has the members' addresses, only answers to A, AAAA and ANY queries name a member. An answer
    to an A or AAAA query names a member only if at least one member has a record of that type.
    """
    if not _has_addresses(index, pool, match) or qtype == Type.ANY:
        return True
    return qtype in (Type.A, Type.AAAA) and any(qtype in (index.node(m.owner) or ()) for m in pool.selectable)


def _has_addresses(index: ZoneIndex, pool: Pool, match: PoolMatch) -> bool:
    """Return whether the pool's own name has the members' addresses (rather than a CNAME).

    A pool's name at the zone apex always has addresses, because a CNAME is illegal at the apex.
    """
    return pool.config.answer == "address" or match.owner == index.zone.origin


def _alias_answer(index: ZoneIndex, ttl: int, member: bytes, match: PoolMatch, qtype: int) -> AnswerSections:
    """Return a CNAME record that points to the member, followed by the member's records of type ``qtype``."""
    chain = (*match.aliases, Record(match.owner, Type.CNAME, ttl, member))
    if qtype in (Type.CNAME, Type.ANY):
        return AnswerSections(answer=chain)
    found = look_up(index, member, qtype, follow_pools=False)
    assert isinstance(found, AnswerSections)
    answer = tuple(record._replace(ttl=min(ttl, record.ttl)) for record in found.answer)
    return replace(found, authoritative=True, answer=chain + answer)


def no_member_answer(index: ZoneIndex, match: PoolMatch) -> AnswerSections:
    """Return the answer for a pool without members: no data. The TTL of 0 keeps resolvers from storing it."""
    authority = tuple(record._replace(ttl=0) for record in index.negative)
    return AnswerSections(answer=match.aliases, authority=authority)


def _address_answer(index: ZoneIndex, ttl: int, member: bytes, match: PoolMatch, qtype: int) -> AnswerSections:
    """Return the member's addresses as records of the pool's name; for other types, return the pool's own records."""
    addresses = index.node(member) or {}
    if qtype == Type.ANY:
        qtype = next(rtype for rtype in (Type.A, Type.AAAA) if rtype in addresses)
    if qtype in (Type.A, Type.AAAA):
        if qtype not in addresses:
            return AnswerSections(answer=match.aliases, authority=index.negative)
        rrset = addresses[qtype]
        records = (Record(match.owner, qtype, min(ttl, rrset.ttl), rdata) for rdata in rrset.rdatas)
        return AnswerSections(answer=(*match.aliases, *records))
    found = look_up(index, match.owner, qtype, follow_pools=False)
    assert isinstance(found, AnswerSections)
    return replace(found, answer=match.aliases + found.answer)


def _address_ttl(index: ZoneIndex, pool: Pool) -> int:
    """Return the maximum TTL of answers. Answers of several members have one TTL (RFC 2181 section 5.2)."""
    if pool.config.answers == 1:
        return pool.config.ttl
    return min(pool.config.ttl, *(found.ttl for found in address_sets(index, pool, Type.A, Type.AAAA)))


def address_sets(index: ZoneIndex, pool: Pool, *types: int) -> Iterable[RRset]:
    nodes = (index.node(member.owner) or {} for member in pool.selectable)
    return (node[rtype] for node in nodes for rtype in types if rtype in node)
