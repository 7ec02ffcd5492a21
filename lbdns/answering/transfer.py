"""Zone transfers: who may have a zone, and the zone as AXFR messages (RFC 5936), which is also IXFR's answer. Pure.

A secondary knows no pools. In its copy the name of a pool holds the addresses of all members, so that it answers with
all of them in turn, as any name server would.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from lbdns.answering.constants import AA, Rcode, Type
from lbdns.answering.entry import UDP, assemble
from lbdns.answering.lookup import records
from lbdns.answering.message import Answer, Body, Record, Writer
from lbdns.answering.query import NO_SERIAL, Query
from lbdns.config import Permit
from lbdns.farm import Farm, Pool
from lbdns.zonefile import RRset, Zone

MESSAGE_SIZE: Final = 4096  # bytes: made in 0.7 ms, in which no query is answered (16 KiB would be 3 ms)
POOL_TTL: Final = 30  # s: a secondary is for when we are away, and we soon are back
_MAX_MESSAGE: Final = 65_535 - 1_024  # bytes, so that OPT and TSIG fit too
_RR_FIXED: Final = 10  # bytes of a record beside its owner and rdata
_SERIAL_HALF: Final = 2**31


class Transfers:
    """Who may have which zone of a farm, and what they get."""

    def __init__(self, farm: Farm) -> None:
        self._permits = {zone.name: zone.transfer for zone in farm.config.zones}
        self._pools = {origin: pools_of(farm, zone) for origin, zone in farm.zones.items()}

    def answer(self, query: Query, zone: Zone, host: str, key: str, transport: int) -> Rcode | Answer | Iterator[bytes]:
        """What AXFR or IXFR of a name in ``zone`` is answered with: an error, one answer, or messages made lazily.

        ``key`` is the name of the key that the query is signed with, if it is.
        """
        if not is_permitted(self._permits.get(zone.name, ()), host, key):
            return Rcode.REFUSED
        if query.qname != zone.origin:
            return Rcode.NOTAUTH
        if query.qtype == Type.IXFR and query.serial == NO_SERIAL:
            return Rcode.FORMERR
        # Over UDP the serial alone: whoever wants the rest comes over TCP (RFC 1995 section 2)
        if query.qtype == Type.IXFR and (transport == UDP or not is_ahead(zone.serial, query.serial)):
            return Answer(answer=(_soa(zone),))
        if transport == UDP:
            return Rcode.REFUSED  # no such thing (RFC 5936 section 4.2)
        return messages(query, zone, self._pools[zone.origin])


def is_permitted(permits: Iterable[Permit], host: str, key: str) -> bool:
    """Whether one of ``permits`` fits a client at ``host`` who signs with ``key`` (empty: with none)."""
    address = ipaddress.ip_address(host.partition("%")[0])
    return any(
        (permit.network is None or address in permit.network) and (not permit.key or permit.key == key)
        for permit in permits
    )


def is_ahead(serial: int, other: int) -> bool:
    """Whether ``serial`` is later than ``other`` (RFC 1982 section 3.2). Half way round nobody knows: it isn't."""
    return 0 < (serial - other) % 2**32 < _SERIAL_HALF


def pools_of(farm: Farm, zone: Zone) -> tuple[Pool, ...]:
    return tuple(pool for pool in farm.pools if pool.zone.origin == zone.origin)


def content(zone: Zone, pools: Iterable[Pool]) -> Iterator[Record]:
    """Every record of the transferred copy but the SOA."""
    for owner, node in zone.nodes.items():
        for rtype, rrset in node.items():
            if rtype != Type.SOA:
                for rdata in rrset.rdatas:
                    yield Record(owner, rtype, rrset.ttl, rdata)
    for pool in pools:
        for owner in pool.owners:
            for rtype in (Type.A, Type.AAAA):
                yield from records(owner, rtype, _of_all_members(zone, pool, rtype))


def _of_all_members(zone: Zone, pool: Pool, rtype: int) -> RRset:
    found = (zone.nodes[member.owner][rtype].rdatas for member in pool.members if rtype in zone.nodes[member.owner])
    return RRset(POOL_TTL, tuple(dict.fromkeys(chain.from_iterable(found))))


def messages(query: Query, zone: Zone, pools: Iterable[Pool]) -> Iterator[bytes]:
    """The zone, SOA first and last, in messages that are made one by one. Names keep their case (RFC 5936 section 3.4).

    Nothing but the arguments is looked at: a reload on the way changes nothing.
    """
    soa = _soa(zone)
    writer, count = Writer(query.question[:-4], exact_case=True), 0
    for record in chain((soa,), content(zone, pools), (soa,)):
        longest = len(record.owner) + _RR_FIXED + len(record.rdata)
        if count and writer.size + longest > MESSAGE_SIZE:
            yield _message(query, writer, count)
            writer, count = Writer(query.question[:-4], exact_case=True), 0
        writer.add((record,))
        count += 1
        if writer.size > _MAX_MESSAGE:
            # A record that no message has room for: the secondary has to know that this is no end
            yield _joined(query, Body(Rcode.SERVFAIL, (0, 0, 0), b""))
            return
    yield _message(query, writer, count)


def _soa(zone: Zone) -> Record:
    return records(zone.origin, Type.SOA, zone.soa)[0]


def _message(query: Query, writer: Writer, count: int) -> bytes:
    return _joined(query, Body(AA, (count, 0, 0), b"".join(writer.parts)))


def _joined(query: Query, body: Body) -> bytes:
    head, tail = assemble(body, query.flags, query.edns)
    return b"".join((query.id, head, query.question, tail))
