"""Collects the records of a zone while the zone is read. Sans-I/O.

A record that cannot be served is rejected immediately, because its line number is known at that moment.

This module replaces the transaction of dnspython, which compares and copies the whole RRset for each added record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import dns.exception
import dns.name
import dns.node
import dns.rdata
import dns.rdatatype

A: Final = int(dns.rdatatype.A)
AAAA: Final = int(dns.rdatatype.AAAA)
SOA: Final = int(dns.rdatatype.SOA)
MAX_TTL: Final = 2**31 - 1  # seconds, RFC 2181 section 8
MAX_RDATA: Final = 65_535  # octets: the length field of a record, RFC 1035 section 3.2.1
MAX_RECORDS: Final = MAX_RDATA // 12  # per name and type: the shortest record takes 12 octets of a message
#: Types without a domain name in their data: such records are equal only if all their octets are equal.
_NAMELESS: Final = frozenset((dns.rdatatype.A, dns.rdatatype.AAAA, dns.rdatatype.TXT))


@dataclass(frozen=True, slots=True)
class RRset:
    """An RRset: all records with one owner name and type. The TTL is in seconds.

    Each rdata is in uncompressed wire format.
    """

    ttl: int
    rdatas: tuple[bytes, ...]


Node = Mapping[int, RRset]


class UnservableError(dns.exception.DNSException):
    """Raised for a record that dnspython accepts but an authoritative server cannot serve."""

    def __init__(self, what: str) -> None:
        super().__init__(what)  # type: ignore[no-untyped-call]


class _RecordSet:
    """All records read so far with one name, type and covered type, keyed by canonical form."""

    __slots__ = ("rdatas", "ttl")

    def __init__(self, ttl: int) -> None:
        self.ttl = ttl
        self.rdatas: dict[bytes, bytes] = {}


Kind = tuple[dns.rdatatype.RdataType, dns.rdatatype.RdataType]  # type, and covered type
_RecordSets = dict[Kind, _RecordSet]


class ZoneRecords:
    """A collection of the records that dnspython's reader finds. The reader uses this object as its transaction."""

    def __init__(self, origin: dns.name.Name) -> None:
        self._name = origin
        self._origin = wire_name(origin)
        self._sets: dict[bytes, _RecordSets] = {}

    @property
    def manager(self) -> ZoneRecords:
        """Return this object: the reader expects a zone here, and this object has the zone methods that the reader
        calls.

        ``manager`` is a property, because an attribute that refers to its own object would create a reference cycle.
        Only the garbage collector frees objects in a reference cycle.
        """
        return self

    def origin_information(self) -> tuple[dns.name.Name, bool, dns.name.Name]:
        """Return the three values that the reader expects: the origin, False because names are absolute, and the origin
        again.
        """
        return self._name, False, self._name

    def add(self, name: dns.name.Name, ttl: int, rdata: dns.rdata.Rdata) -> None:
        """Add one record. Raises UnservableError."""
        wire = rdata.to_wire() or b""
        alike = wire if rdata.rdtype in _NAMELESS else rdata.to_digestable()
        self.put(wire_name(name), (rdata.rdtype, rdata.covers()), ttl, wire, alike)

    def put(self, owner: bytes, kind: Kind, ttl: int, wire: bytes, alike: bytes) -> None:
        """Add one record. ``owner`` is in lower case. ``alike`` is the data in canonical form (names in lower case).

        If a record cannot be served, the method raises UnservableError and does not add it.
        """
        rtype, _ = kind
        sets = self._sets.setdefault(owner, {})
        found = sets.get(kind)
        if found is None:
            self._check_new(owner, sets, kind)
        else:
            _check_joining(found, alike, rtype)
        if ttl > MAX_TTL:
            raise UnservableError(f"the TTL must be at most {MAX_TTL} s, not {ttl} s")
        if len(wire) > MAX_RDATA:
            raise UnservableError(f"a record must have at most {MAX_RDATA} octets, not {len(wire)}")
        if found is None:
            found = sets[kind] = _RecordSet(ttl)
        found.rdatas.setdefault(alike, wire)
        found.ttl = min(found.ttl, ttl)

    def _check_new(self, owner: bytes, sets: _RecordSets, kind: Kind) -> None:
        rtype, _ = kind
        if rtype in (0, dns.rdatatype.OPT) or dns.rdatatype.is_metatype(rtype):
            what = dns.rdatatype.to_text(rtype)
            raise UnservableError(f"{what} is not a record type: it is meaningful only in queries")
        if rtype == dns.rdatatype.SOA and owner != self._origin:
            raise UnservableError("an SOA record must be at the apex of its zone")
        if sets:
            _check_alias(sets, kind)

    def check_put_rdataset(self, check: Any) -> None:
        """No-op: the reader registers its check of CNAME records here, but ``add`` already checks them."""

    def _set_origin(self, origin: dns.name.Name) -> None:
        """No-op: $ORIGIN does not change the origin of the zone."""

    def add_unicode(self, version: str) -> None:
        """No-op: the records do not depend on the Unicode forms of names."""

    def nodes(self) -> dict[bytes, Node]:
        """Return the RRsets, keyed by lower-case wire name and type."""
        return {owner: _node(sets) for owner, sets in self._sets.items() if sets}


def wire_name(name: dns.name.Name) -> bytes:
    """Return the lower-case wire form of an absolute name."""
    return b"".join([bytes((len(label),)) + label for label in name.labels]).lower()


def _check_joining(found: _RecordSet, alike: bytes, rtype: dns.rdatatype.RdataType) -> None:
    what = dns.rdatatype.to_text(rtype)
    is_soa = rtype == dns.rdatatype.SOA
    if is_soa or (alike not in found.rdatas and dns.rdatatype.is_singleton(rtype)):
        raise UnservableError(f"a second {what} record; a {'zone' if is_soa else 'name'} may have only one such record")
    if len(found.rdatas) >= MAX_RECORDS and alike not in found.rdatas:
        raise UnservableError(f"a name may have at most {MAX_RECORDS} {what} records")


def _check_alias(sets: _RecordSets, kind: Kind) -> None:
    """Check that a name with a CNAME has no other records except DNSSEC records (RFC 2181 section 10.1, RFC 4034)."""
    classify, kinds = dns.node.NodeKind.classify, dns.node.NodeKind
    new, there = classify(*kind), {classify(*other) for other in sets}
    if (new is kinds.CNAME and kinds.REGULAR in there) or (new is kinds.REGULAR and kinds.CNAME in there):
        raise UnservableError("a name has a CNAME record and other records; an alias must not have other records")


def _node(sets: _RecordSets) -> Node:
    # For a server that does not sign, all RRSIG records of a name are one RRset
    rrsets: dict[int, RRset] = {}
    for (rtype, _), found in sets.items():
        rdatas = tuple(found.rdatas.values())
        before = rrsets.get(int(rtype))
        rrsets[int(rtype)] = (
            RRset(min(before.ttl, found.ttl), before.rdatas + rdatas) if before else RRset(found.ttl, rdatas)
        )
    return rrsets
