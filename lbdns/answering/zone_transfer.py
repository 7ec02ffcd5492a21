"""Zone transfers: checks permissions and writes AXFR messages (RFC 5936), including those that answer IXFR queries.

Pure. Secondaries do not support pools. In a secondary's copy of a zone, a pool's name has the addresses of all members,
and the secondary rotates these addresses as any name server does.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

import dns.rdatatype

from lbdns.answering.dns_constants import AA, MAX_TCP_MESSAGE, UDP, Rcode, Type
from lbdns.answering.message_writer import (
    AnswerSections,
    Record,
    RecordWriter,
    ResponseBody,
    without_records,
    write_variant,
)
from lbdns.answering.query_reader import NO_SERIAL, Query
from lbdns.answering.zone_lookup import records
from lbdns.config import TransferPermit
from lbdns.model.farm import Farm, Pool
from lbdns.zones import names
from lbdns.zones.master_file import RRset, Zone
from lbdns_shared.errors import LbdnsError

MESSAGE_SIZE: Final = 4096  # bytes: writing takes 0.7 ms, during which no query is answered (16 KiB would take 3 ms)
POOL_TTL: Final = 30  # s: clients use a secondary only while we are down, which is brief
_OPT: Final = 11  # bytes of an OPT record without options
_MAX_TSIG: Final = 400  # bytes of a TSIG record, at most: a key's name of 255 bytes, an algorithm's name, a MAC, times
_RR_FIXED: Final = 10  # bytes of a record without its owner and rdata
_SERIAL_HALF: Final = 2**31


class TransferError(LbdnsError):
    """Raised if a zone cannot be transferred."""


@dataclass(frozen=True, slots=True)
class ZoneTransfer:
    """A zone that is to be sent over TCP. ``messages`` generates each message when the caller requests it.

    If the zone cannot be transferred, the last message is an error response, and then ``messages`` raises
    TransferError.
    """

    messages: Iterator[bytes]
    zone: str = ""


class TransferResponder:
    """Answers zone transfer queries for the zones of one farm."""

    def __init__(self, farm: Farm) -> None:
        self._permits = {zone.name: zone.transfer for zone in farm.config.zones}
        self._pools = {origin: pools_of(farm, zone) for origin, zone in farm.zones.items()}

    def answer(
        self, query: Query, zone: Zone, host: str, key: str, transport: int
    ) -> Rcode | AnswerSections | Iterator[bytes]:
        """Return the answer to an AXFR or IXFR query in ``zone``: an error, one response, or an iterator of messages.

        ``key`` is the name of the TSIG key that signed the query, or an empty string if it is unsigned.
        """
        if not is_permitted(self._permits.get(zone.name, ()), host, key):
            return Rcode.REFUSED
        if query.qname != zone.origin:
            return Rcode.NOTAUTH
        if query.qtype == Type.IXFR and query.serial == NO_SERIAL:
            return Rcode.FORMERR
        # Over UDP, send only the SOA: the client repeats the query over TCP to get the zone (RFC 1995 section 2)
        if query.qtype == Type.IXFR and (transport == UDP or not is_ahead(zone.serial, query.serial)):
            return AnswerSections(answer=(_soa(zone),))
        if transport == UDP:
            return Rcode.REFUSED  # AXFR needs TCP (RFC 5936 section 4.2)
        return messages(query, zone, self._pools[zone.origin])


def is_permitted(permits: Iterable[TransferPermit], host: str, key: str) -> bool:
    """Return whether any of ``permits`` allows a client at ``host`` that signs with ``key`` (empty if unsigned)."""
    address = ipaddress.ip_address(host.partition("%")[0])
    return any(
        (permit.network is None or address in permit.network) and (not permit.key or permit.key == key)
        for permit in permits
    )


def is_ahead(serial: int, other: int) -> bool:
    """Return whether ``serial`` is later than ``other`` (RFC 1982 section 3.2); false if they differ by 2**31."""
    return 0 < (serial - other) % 2**32 < _SERIAL_HALF


def pools_of(farm: Farm, zone: Zone) -> tuple[Pool, ...]:
    return tuple(pool for pool in farm.pools if pool.zone.origin == zone.origin)


def content(zone: Zone, pools: Iterable[Pool]) -> Iterator[Record]:
    """Yield every record of a secondary's copy of the zone, except the SOA record."""
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
    """Yield a transfer's messages, beginning and ending with the SOA record.

    Names keep their letter case (RFC 5936 section 3.4). Messages are generated one at a time, from the arguments alone,
    so a reload does not affect a transfer in progress. If a record does not fit into a message, the transfer ends with
    a SERVFAIL message, so that the secondary knows that it is incomplete. TransferError is raised after the SERVFAIL
    message.
    """
    limit = MAX_TCP_MESSAGE - (_OPT if query.edns else 0) - (_MAX_TSIG if query.signature else 0)
    soa = _soa(zone)
    writer, count = RecordWriter(query.question[:-4], exact_case=True), 0
    for record in chain((soa,), content(zone, pools), (soa,)):
        longest = len(record.owner) + _RR_FIXED + len(record.rdata)
        if count and writer.size + longest > MESSAGE_SIZE:
            yield _message(query, writer, count)
            writer, count = RecordWriter(query.question[:-4], exact_case=True), 0
        writer.add((record,))
        count += 1
        if writer.size > limit:
            yield _joined(query, without_records(Rcode.SERVFAIL))
            what = f"the {dns.rdatatype.to_text(Type(record.rtype))} record of {names.to_text(record.owner)}"
            raise TransferError(f"{what} ({len(record.rdata)} octets) does not fit into a message")
    yield _message(query, writer, count)


def _soa(zone: Zone) -> Record:
    return records(zone.origin, Type.SOA, zone.soa)[0]


def _message(query: Query, writer: RecordWriter, count: int) -> bytes:
    return _joined(query, ResponseBody(AA, (count, 0, 0), b"".join(writer.parts)))


def _joined(query: Query, body: ResponseBody) -> bytes:
    head, tail = write_variant(body, query.flags, query.edns)
    return b"".join((query.id, head, query.question, tail))
