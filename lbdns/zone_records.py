"""The records of one zone as they are read: what a server can't serve is refused while its line is known. Pure.

Takes the place of dnspython's transaction, which compares and copies a whole RRset for every record that joins it.
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
MAX_RECORDS: Final = MAX_RDATA // 12  # of a name and type: the shortest record takes 12 octets of a message
#: Types without a name in their data, which are therefore alike only if all their octets are.
_NAMELESS: Final = frozenset((dns.rdatatype.A, dns.rdatatype.AAAA, dns.rdatatype.TXT))


@dataclass(frozen=True, slots=True)
class RRset:
    """The records of one name and type: TTL in seconds, each rdata in uncompressed wire form."""

    ttl: int
    rdatas: tuple[bytes, ...]


Node = Mapping[int, RRset]


class UnservableError(dns.exception.DNSException):
    """What dnspython lets pass and a server can't serve."""

    def __init__(self, what: str) -> None:
        super().__init__(what)  # type: ignore[no-untyped-call]


class _Set:
    """The records of one name, type and covered type so far, by what makes them alike."""

    __slots__ = ("rdatas", "ttl")

    def __init__(self, ttl: int) -> None:
        self.ttl = ttl
        self.rdatas: dict[bytes, bytes] = {}


Kind = tuple[dns.rdatatype.RdataType, dns.rdatatype.RdataType]  # type, and covered type
_Sets = dict[Kind, _Set]


class ZoneRecords:
    """Collects what dnspython's reader finds; the methods are those that it calls of a transaction."""

    def __init__(self, origin: dns.name.Name) -> None:
        self.manager = self
        self._name = origin
        self._origin = wire_name(origin)
        self._sets: dict[bytes, _Sets] = {}

    def origin_information(self) -> tuple[dns.name.Name, bool, dns.name.Name]:
        """What the reader asks its ``manager``: the origin, whether names are relative to it, and it once more."""
        return self._name, False, self._name

    def add(self, name: dns.name.Name, ttl: int, rdata: dns.rdata.Rdata) -> None:
        """Take in one record. Raises UnservableError."""
        wire = rdata.to_wire() or b""
        alike = wire if rdata.rdtype in _NAMELESS else rdata.to_digestable()
        self.put(wire_name(name), (rdata.rdtype, rdata.covers()), ttl, wire, alike)

    def put(self, owner: bytes, kind: Kind, ttl: int, wire: bytes, alike: bytes) -> None:
        """Take in one record: ``owner`` in lower-case wire form, ``wire`` its data, ``alike`` the same with names in
        lower case. Raises UnservableError, and then nothing is taken in."""
        rtype, _ = kind
        sets = self._sets.setdefault(owner, {})
        found = sets.get(kind)
        if found is None:
            self._check_new(owner, sets, kind)
        else:
            _check_joining(found, alike, rtype)
        if ttl > MAX_TTL:
            raise UnservableError(f"a TTL of {ttl} s: it can be {MAX_TTL} at most")
        if len(wire) > MAX_RDATA:
            raise UnservableError(f"a record of {len(wire)} octets: {MAX_RDATA} at most")
        if found is None:
            found = sets[kind] = _Set(ttl)
        found.rdatas.setdefault(alike, wire)
        found.ttl = min(found.ttl, ttl)

    def _check_new(self, owner: bytes, sets: _Sets, kind: Kind) -> None:
        """The first record of its kind at a name."""
        rtype, _ = kind
        if rtype in (0, dns.rdatatype.OPT) or dns.rdatatype.is_metatype(rtype):
            what = dns.rdatatype.to_text(rtype)
            raise UnservableError(f"{what} is no type of records: it stands for something else in queries")
        if rtype == dns.rdatatype.SOA and owner != self._origin:
            raise UnservableError("an SOA record at another name than the zone's")
        if sets:
            _check_alias(sets, kind)

    def check_put_rdataset(self, check: Any) -> None:
        """The reader wants its own check made, of aliases beside other records; ``add`` makes it."""

    def _set_origin(self, origin: dns.name.Name) -> None:
        """The origin of the zone does not change with $ORIGIN."""

    def add_unicode(self, version: str) -> None:
        """What names in the file look like in Unicode makes no difference to what is served."""

    def nodes(self) -> dict[bytes, Node]:
        """Lower-case wire name -> type -> RRset."""
        return {owner: _node(sets) for owner, sets in self._sets.items() if sets}


def wire_name(name: dns.name.Name) -> bytes:
    """Wire form of an absolute name, lower case."""
    return b"".join([bytes((len(label),)) + label for label in name.labels]).lower()


def _check_joining(found: _Set, alike: bytes, rtype: dns.rdatatype.RdataType) -> None:
    """One more record beside others of its name and type."""
    what = dns.rdatatype.to_text(rtype)
    is_soa = rtype == dns.rdatatype.SOA
    if is_soa or (alike not in found.rdatas and dns.rdatatype.is_singleton(rtype)):
        raise UnservableError(f"a second {what} record: a {'zone' if is_soa else 'name'} has one")
    if len(found.rdatas) >= MAX_RECORDS and alike not in found.rdatas:
        raise UnservableError(f"more than {MAX_RECORDS} {what} records at one name")


def _check_alias(sets: _Sets, kind: Kind) -> None:
    """A name with a CNAME has nothing else but what signs and denies (RFC 2181 section 10.1, RFC 4034)."""
    classify, kinds = dns.node.NodeKind.classify, dns.node.NodeKind
    new, there = classify(*kind), {classify(*other) for other in sets}
    if (new is kinds.CNAME and kinds.REGULAR in there) or (new is kinds.REGULAR and kinds.CNAME in there):
        raise UnservableError("a CNAME record beside others: an alias has no data of its own")


def _node(sets: _Sets) -> Node:
    # Records that cover others (RRSIG) are one RRset to a server that does not sign
    rrsets: dict[int, RRset] = {}
    for (rtype, _), found in sets.items():
        rdatas = tuple(found.rdatas.values())
        before = rrsets.get(int(rtype))
        rrsets[int(rtype)] = (
            RRset(min(before.ttl, found.ttl), before.rdatas + rdatas) if before else RRset(found.ttl, rdatas)
        )
    return rrsets
