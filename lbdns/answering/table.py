"""The table of compiled answers for one farm: swapped in by one assignment, filled as names are asked. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lbdns import names
from lbdns.answering.constants import TYPE_NAMES, Type
from lbdns.answering.entry import TRANSPORTS, UDP, Entry, Variant
from lbdns.answering.handout import CompiledHandout, Handout
from lbdns.answering.lookup import Dynamic, ZoneIndex, lookup
from lbdns.answering.message import Answer, Body, Record, write
from lbdns.answering.plane import PYTHON, Plane
from lbdns.answering.transfer import Transfers
from lbdns.answering.tsig import keyring
from lbdns.farm import Farm, Pool

MAX_ENTRIES: Final = 65_536  # questions kept compiled; about 1 kB each
#: Types whose answers are kept although no record has them: what clients really ask for.
_USUAL_TYPES: Final = frozenset((Type.A, Type.AAAA, Type.ANY, Type.CNAME, Type.HTTPS, Type.MX, Type.NS, Type.TXT))
#: Policies that promise something about every query, whatever its type.
_STRICT: Final = frozenset(("round_robin",))
#: What types without a name in TYPE_NAMES are counted as, all together: clients can't make up new counters.
OTHER_TYPE: Final = 0
#: zone, type, transport, rcode -> queries
Asked = dict[tuple[str, int, str, int], int]


class Table:
    """Every answer of one farm. ``handouts`` has one for each pool and policy; whoever plans sets their plans."""

    def __init__(self, farm: Farm, plane: Plane = PYTHON) -> None:
        self.farm = farm
        self.plane = plane
        self.compiled = plane.table(farm.config.server.payload)
        self.keys = keyring(farm.config.keys)
        self.transfers = Transfers(farm)
        self.handouts: dict[tuple[str, str], Handout] = {}
        self.entries: dict[bytes, Entry] = {}
        self.asked: Asked = {}  # queries of entries that are gone, and of questions that never had one
        self._owners: dict[bytes, tuple[Pool, Handout]] = {}
        for pool in farm.pools:
            for owner, policy in pool.owners.items():
                if (pool.name, policy) not in self.handouts:
                    self.handouts[pool.name, policy] = self._handout(pool, policy)
                handout = self.handouts[pool.name, policy]
                self._owners[owner] = (pool, handout)
        self._zones: Mapping[bytes, ZoneIndex] = {
            origin: ZoneIndex(zone, (owner for owner in self._owners if self._is_in(owner, origin)))
            for origin, zone in farm.zones.items()
        }
        self._letter_types = any(
            _is_letters(rtype) for zone in farm.zones.values() for node in zone.nodes.values() for rtype in node
        )

    def _handout(self, pool: Pool, policy: str) -> Handout:
        coherence = 0.0 if policy in _STRICT else pool.config.coherence
        if self.compiled:
            return CompiledHandout(len(pool.members), self.compiled, coherence)
        return Handout(len(pool.members), len(self.handouts), coherence)

    def _is_in(self, owner: bytes, origin: bytes) -> bool:
        return self._owners[owner][0].zone.origin == origin

    def zone_of(self, qname: bytes, qtype: int) -> ZoneIndex | None:
        """The zone that answers for ``qname``: the longest one; for DS at its apex the one above (RFC 4035 3.1.4.1)."""
        for above in names.suffixes(qname):
            index = self._zones.get(above)
            if index and not (qtype == Type.DS and above == qname and self._parent_zone(qname)):
                return index
        return None

    def _parent_zone(self, origin: bytes) -> bool:
        return bool(origin[0]) and any(above in self._zones for above in names.suffixes(names.parent(origin)))

    def entry(self, index: ZoneIndex, qname: bytes, qtype: int) -> Entry:
        """The entry for a question (lower-case wire name, class IN) in the zone of ``index``.

        It is kept if the name exists and its type is one that is really asked for, so that nobody can fill the memory
        with made-up questions.
        """
        key = (qname + qtype.to_bytes(2, "big") + b"\0\1").lower()
        entry = self.entries.get(key)
        if entry is not None and entry.qtype == qtype:
            return entry
        entry = self._compile(index, key, qname, qtype)
        usual = qtype in _USUAL_TYPES or qtype in (index.node(qname) or ())
        if usual and qname in index.names and not (_is_letters(qtype) and self._letter_types):
            if len(self.entries) >= MAX_ENTRIES:
                self.forget_entries()
            self.entries[key] = entry
            entry.kept = True
        return entry

    def _compile(self, index: ZoneIndex, key: bytes, qname: bytes, qtype: int) -> Entry:
        found = lookup(index, qname, qtype)
        name = index.zone.name
        if isinstance(found, Answer):
            answer = found
            entry = Entry(key, name, qtype, lambda _: write(answer, qname), 1, None)
            entry.way_out = self._way_out(answer, qtype)
            return entry
        dynamic = found
        pool, handout = self._owners[found.owner]
        form = _address if _in_place(index, pool, found) else _alias

        def make(member: int) -> Body:
            return write(form(index, pool, pool.members[member].owner, dynamic, qtype), qname)

        members = len(pool.members)
        return Entry(key, name, qtype, make, members, handout if hands_out(index, pool, found, qtype) else None)

    def _way_out(self, answer: Answer, qtype: int) -> tuple[Record, ...]:
        """The aliases of an answer that is nothing but aliases and whose end is in no zone of ours."""
        records = answer.answer
        if not records or records[-1].rtype != Type.CNAME or qtype in (Type.CNAME, Type.ANY) or answer.authority:
            return ()
        return records if self.zone_of(records[-1].rdata.lower(), qtype) is None else ()

    def keep(self, entry: Entry, kind: int, variants: Sequence[Variant]) -> None:
        """Have the short way find the responses to a kept entry's question, asked in this kind of way."""
        entry.variants[kind] = variants
        if self.compiled and variants:
            cursor = entry.handout.cursor if isinstance(entry.handout, CompiledHandout) else None
            self.compiled.keep(entry.key, cursor, entry.together, kind, variants)

    def forget_entries(self) -> None:
        """Drop every compiled answer, keeping what they counted."""
        for asked, count in self._of_entries():
            self.count(asked, count)
        for entry in self.entries.values():
            entry.kept = False
        self.entries = {}
        if self.compiled:
            self.compiled.forget()

    def count(self, asked: tuple[str, int, str, int], count: int = 1) -> None:
        """Count queries that are in no entry."""
        zone, qtype, transport, rcode = asked
        asked = (zone, counted_type(qtype), transport, rcode)
        self.asked[asked] = self.asked.get(asked, 0) + count

    def queries(self) -> Asked:
        """All queries answered so far, by zone, type, transport and rcode."""
        total = dict(self.asked)
        for asked, count in self._of_entries():
            total[asked] = total.get(asked, 0) + count
        return total

    def _of_entries(self) -> Iterable[tuple[tuple[str, int, str, int], int]]:
        for key, count in self.compiled.take_asked() if self.compiled else ():
            self.entries[key].asked[UDP] += count
        for entry in self.entries.values():
            for transport, count in zip(TRANSPORTS, entry.asked, strict=True):
                if count:
                    yield (entry.zone, counted_type(entry.qtype), transport, entry.rcode), count

    def take_over(self, old: Table) -> None:
        """Go on where the table before a reload was: its counters and where its rotations stood."""
        self.asked = old.queries()
        members = {pool.name: [member.full_name for member in pool.members] for pool in self.farm.pools}
        for pool in old.farm.pools:
            now = {name: i for i, name in enumerate(members.get(pool.name, []))}
            mapping = [now.get(member.full_name) for member in pool.members]
            for policy in set(pool.owners.values()):
                handout = self.handouts.get((pool.name, policy))
                if handout:
                    handout.take_over(old.handouts[pool.name, policy], mapping)


def counted_type(qtype: int) -> int:
    """The type that a query for ``qtype`` is counted under."""
    return qtype if qtype in TYPE_NAMES else OTHER_TYPE


def hands_out(index: ZoneIndex, pool: Pool, asked: Dynamic, qtype: int) -> bool:
    """Whether the answer names a member at all. Addresses at the name itself say nothing of one if another type is
    asked for, or one that no member has."""
    if not _in_place(index, pool, asked) or qtype == Type.ANY:
        return True
    return qtype in (Type.A, Type.AAAA) and any(qtype in (index.node(m.owner) or ()) for m in pool.members)


def _in_place(index: ZoneIndex, pool: Pool, asked: Dynamic) -> bool:
    """Whether the addresses stand at the pool's name itself: always at the apex, where no CNAME may be."""
    return pool.config.answer == "address" or asked.owner == index.zone.origin


def _alias(index: ZoneIndex, pool: Pool, member: bytes, asked: Dynamic, qtype: int) -> Answer:
    """CNAME to the member, and what the zone has there."""
    ttl = pool.config.ttl
    chain = (*asked.aliases, Record(asked.owner, Type.CNAME, ttl, member))
    if qtype in (Type.CNAME, Type.ANY):
        return Answer(answer=chain)
    found = lookup(index, member, qtype, follow_dynamic=False)
    assert isinstance(found, Answer)
    answer = tuple(record._replace(ttl=min(ttl, record.ttl)) for record in found.answer)
    return replace(found, authoritative=True, answer=chain + answer)


def _address(index: ZoneIndex, pool: Pool, member: bytes, asked: Dynamic, qtype: int) -> Answer:
    """The member's addresses under the pool's own name; other types as the zone has them there."""
    addresses = index.node(member) or {}
    if qtype == Type.ANY:
        qtype = next(rtype for rtype in (Type.A, Type.AAAA) if rtype in addresses)
    if qtype in (Type.A, Type.AAAA):
        if qtype not in addresses:
            return Answer(answer=asked.aliases, authority=index.negative)
        rrset = addresses[qtype]
        ttl = min(pool.config.ttl, rrset.ttl)
        return Answer(answer=(*asked.aliases, *(Record(asked.owner, qtype, ttl, rdata) for rdata in rrset.rdatas)))
    found = lookup(index, asked.owner, qtype, follow_dynamic=False)
    assert isinstance(found, Answer)
    return replace(found, answer=asked.aliases + found.answer)


def _is_letters(qtype: int) -> bool:
    """Whether lower-casing a question would change this type into another, or another into it."""
    return any(0x41 <= octet <= 0x5A or 0x61 <= octet <= 0x7A for octet in qtype.to_bytes(2, "big"))
