"""The records in the answers of a pool: its members' addresses, or an alias of a member."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from lbdns.answering.dns_constants import Type
from lbdns.answering.message_writer import AnswerSections, Record
from lbdns.answering.zone_lookup import PoolMatch, ZoneIndex, look_up
from lbdns.model.farm import Pool
from lbdns.zones.master_file import RRset


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
