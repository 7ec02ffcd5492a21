"""The answer table: maps each question to its answers (one per pool member), and compiles answers on demand.

An answer table belongs to one farm; a reload of the configuration replaces the whole table. Sans-I/O.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from lbdns.answering.answer_follower import AnswerFollower
from lbdns.answering.client_orders import NO_SCOPE, ClientOrders
from lbdns.answering.cookies import CLIENT, SERVER
from lbdns.answering.dns_constants import TRANSPORTS, TYPE_NAMES, UDP, Type
from lbdns.answering.edns import LEAST_PAYLOAD, LONGEST_SUBNET
from lbdns.answering.member_lists import Fragment, ListCursor, ListVariants, ListWriter, longest_addition
from lbdns.answering.member_selection import FAMILY_TYPES, PlanCursor
from lbdns.answering.message_writer import (
    AnswerSections,
    Record,
    ResponseBody,
    Variant,
    precompiled_variant,
    write_body,
)
from lbdns.answering.plane import PYTHON_PLANE, Plane
from lbdns.answering.pool_cursors import pool_cursor, take_over_counts
from lbdns.answering.query_shapes import FIRST_COOKIE_KIND, KINDS, QUERY_PARAMETERS
from lbdns.answering.tsig import keyring
from lbdns.answering.zone_lookup import ZoneIndex, address_sets, look_up, names_member, no_member_answer, pool_answer
from lbdns.answering.zone_transfer import TransferResponder
from lbdns.model.farm import Farm, Pool
from lbdns.zones import names

MAX_ENTRIES: Final = 65_536  # questions kept compiled; about 1 kB each
#: Types that clients commonly query: the table keeps their answers even if no record has the type.
_USUAL_TYPES: Final = frozenset((Type.A, Type.AAAA, Type.ANY, Type.CNAME, Type.HTTPS, Type.MX, Type.NS, Type.TXT))
#: Replaces every type without a name in TYPE_NAMES when queries are counted, so that clients can't create counters.
OTHER_TYPE: Final = 0
#: zone, type, transport, rcode -> queries
QueryCounts = dict[tuple[str, int, str, int], int]


class AnswerEntry:
    """The answer to one question: either a single response body or one body per pool member.

    ``make`` creates a member's response body when it is first needed. For each response kind, ``variants`` contains one
    (head, tail) pair per member, from which the fast path builds responses. The item for a kind is None until a query
    first requires that kind. If responses of that kind may be too long for some clients, the item is empty.

    If answers name several members, ``lists`` writes them. The cursor is then a ``ListCursor``, and the numbers that it
    returns take the place of members in ``body`` and ``variants``.

    If the pool has sites, ``client_orders`` decides by the client which of the entries ``by_order`` is used. These
    entries share everything but their cursors and lists.

    An entry must not refer to itself, not even through other objects: a table that a reload replaces is freed without
    the garbage collector.
    """

    __slots__ = (
        "_bodies", "_make", "_others", "client_orders", "cursor", "external_aliases", "family", "kept", "key", "lists",
        "qtype", "queries", "variants", "zone",
    )  # fmt: skip

    def __init__(
        self,
        key: bytes,
        zone: str,
        qtype: int,
        make: Callable[[int], ResponseBody],
        members: int = 1,
        cursor: PlanCursor | None = None,
        lists: ListWriter | None = None,
    ) -> None:
        self.key = key  # the question's bytes, in lower case
        self.zone, self.qtype = zone, qtype
        self.cursor = cursor  # None if the answer names no member
        #: The type's number among the types that share a member; None if this type shares no member
        self.family = FAMILY_TYPES.get(qtype) if cursor and cursor.affinity_window else None
        self._make = make
        self.lists = lists
        # Bodies are written on first use: an entry that isn't kept needs only one of perhaps hundreds
        self._bodies: list[ResponseBody | None] = [None] * (members if cursor else 1)
        self.variants: list[Sequence[Variant] | None] = [None] * KINDS
        self.queries = [0, 0]  # number of queries answered, by transport
        self.kept = False  # whether the table holds this entry
        self.client_orders: ClientOrders | None = None  # None: the pool has no sites
        self._others: Sequence[AnswerEntry] = ()  # for the orders of sites after the first one
        self.external_aliases: tuple[Record, ...] = ()  # the whole answer, if its aliases lead out of our zones

    def choose_among(self, entries: Sequence[AnswerEntry], orders: ClientOrders) -> None:
        """Make this entry choose among ``entries``, of which it is the first, by the order of a client's sites."""
        self.client_orders, self._others = orders, entries[1:]
        for entry in self._others:
            entry.client_orders, entry.queries = orders, self.queries
            if not self.lists:
                entry._bodies, entry.variants = self._bodies, self.variants

    @property
    def by_order(self) -> Sequence[AnswerEntry]:
        """Return the entry for each order of the pool's sites; the first one is this entry."""
        return (self, *self._others)

    def for_client(self, host: str, subnet: bytes) -> tuple[AnswerEntry, bytes]:
        """Return two values: the entry for the order in which a client uses the pool's sites, and the answer's scope.

        The parameters and the scope are those of ``ClientOrders.find``. Without sites, the scope is 0.
        """
        if self.client_orders is None:
            return self, NO_SCOPE
        order, scope = self.client_orders.find(host, subnet)
        return self._others[order - 1] if order else self, scope

    def keep(self, kept: bool) -> None:
        """Record whether the table holds this entry."""
        for entry in self.by_order:
            entry.kept = kept

    def body(self, member: int) -> ResponseBody:
        """Return the body of the answer that names the member with index ``member``, or the members of the list with
        this number; index 0 is the answer that names no member.
        """
        return self.lists.body(member) if self.lists else self._single(member)

    def _single(self, member: int) -> ResponseBody:
        body = self._bodies[member]
        if body is None:
            body = self._bodies[member] = self._make(member)
        return body

    @property
    def bodies(self) -> list[ResponseBody]:
        """The bodies of the answers that name only one member, by member."""
        return [self._single(member) for member in range(len(self._bodies))]

    @property
    def rcode(self) -> int:
        """The RCODE of the response, which is the same for every member."""
        return self._single(0).flags & 0xF


class AnswerTable:
    """The answers for one farm, keyed by question.

    For each pool with members, ``cursors`` contains one plan cursor per policy; the planner sets the cursors' plans.
    Names are in lower-case wire form.
    """

    def __init__(self, farm: Farm, plane: Plane = PYTHON_PLANE) -> None:
        self.farm = farm
        self.plane = plane
        self.native = plane.native_table(farm.config.server.payload)
        self.follower: AnswerFollower | None = None  # answers common queries too, such as the kernel
        self.keys = keyring(farm.config.keys)
        self.transfers = TransferResponder(farm)
        self.cursors: dict[tuple[str, str], PlanCursor] = {}
        self._client_orders = {pool.name: ClientOrders(pool.sites) for pool in farm.pools if pool.sites}
        self.depends_on_clients = bool(self._client_orders)  # whether some answers depend on the client
        self.entries: dict[bytes, AnswerEntry] = {}
        self._counts: QueryCounts = {}  # queries for dropped entries, and for questions that never had one
        self._owners: dict[bytes, tuple[Pool, PlanCursor | None]] = {}  # None: the pool has no members
        numbers = itertools.count()
        for pool in farm.pools:
            for owner, policy in pool.owners.items():
                if pool.selectable and (pool.name, policy) not in self.cursors:
                    self.cursors[pool.name, policy] = pool_cursor(pool, self.native, numbers)
                self._owners[owner] = (pool, self.cursors.get((pool.name, policy)))
        self._zones: Mapping[bytes, ZoneIndex] = {
            origin: ZoneIndex(zone, [o for o, (pool, _) in self._owners.items() if pool.zone.origin == origin])
            for origin, zone in farm.zones.items()
        }
        nodes = (node for zone in farm.zones.values() for node in zone.nodes.values())
        self._has_letter_types = any(_is_letters(rtype) for node in nodes for rtype in node)

    def zone_of(self, qname: bytes, qtype: int) -> ZoneIndex | None:
        """Return the ZoneIndex of the zone that answers for ``qname``, or None if there is no such zone.

        The zone with the longest matching name is authoritative. DS queries for a zone's apex are answered from the
        parent zone if the server also serves that zone (RFC 4035 section 3.1.4.1).
        """
        at = 0
        while True:
            index = self._zones.get(qname[at:])
            if index and not (qtype == Type.DS and not at and self._has_parent_zone(qname)):
                return index
            if not qname[at]:
                return None
            at += 1 + qname[at]

    def _has_parent_zone(self, origin: bytes) -> bool:
        return bool(origin[0]) and any(above in self._zones for above in names.suffixes(names.parent(origin)))

    def entry(self, index: ZoneIndex, qname: bytes, qtype: int) -> AnswerEntry:
        """Return the entry for a question of class IN. ``index`` is the index of the zone that answers the question.

        The table keeps the entry only if the name exists and the type is either common or present at that name. These
        conditions prevent clients from exhausting the server's memory with random questions.
        """
        key = (qname + qtype.to_bytes(2, "big") + b"\0\1").lower()
        if (entry := self.entries.get(key)) is not None and entry.qtype == qtype:
            return entry
        entry = self._compile(index, key, qname, qtype)
        usual = qtype in _USUAL_TYPES or qtype in (index.node(qname) or ())
        if usual and qname in index.names and not (_is_letters(qtype) and self._has_letter_types):
            if len(self.entries) >= MAX_ENTRIES:
                self.forget_entries()
            self.entries[key] = entry
            entry.keep(True)
        return entry

    def _compile(self, index: ZoneIndex, key: bytes, qname: bytes, qtype: int) -> AnswerEntry:
        found = look_up(index, qname, qtype)
        name = index.zone.name
        if isinstance(found, AnswerSections):
            sections = found
            entry = AnswerEntry(key, name, qtype, lambda _: write_body(sections, qname))
            entry.external_aliases = self._external_aliases(sections, qtype)
            return entry
        match = found
        pool, cursor = self._owners[match.owner]
        members = pool.selectable
        if not members:
            return AnswerEntry(key, name, qtype, lambda _: write_body(no_member_answer(index, match), qname))
        answer = pool_answer(index, pool, match, qtype)

        def make(member: int) -> ResponseBody:
            return write_body(answer(member), qname)

        if not names_member(index, pool, match, qtype):
            cursor = None

        def entry_of(cursor: PlanCursor | None) -> AnswerEntry:
            lists = None
            if isinstance(cursor, ListCursor):
                rdatas = [rdata for rrset in address_sets(index, pool, qtype) for rdata in rrset.rdatas]
                is_distinct, aliases = len(set(rdatas)) == len(rdatas), len(match.aliases)
                lists = ListWriter(cursor, answer, qname, qtype, aliases, has_distinct_addresses=is_distinct)
            return AnswerEntry(key, name, qtype, make, len(members), cursor, lists)

        entry = entry_of(cursor)
        if cursor and pool.sites:
            entry.choose_among((entry, *map(entry_of, cursor.others)), self._client_orders[pool.name])
        return entry

    def _external_aliases(self, sections: AnswerSections, qtype: int) -> tuple[Record, ...]:
        """Return the answer's records if its alias chain leads out of our zones; otherwise, return an empty tuple."""
        records = sections.answer
        if not records or records[-1].rtype != Type.CNAME or qtype in (Type.CNAME, Type.ANY) or sections.authority:
            return ()
        return records if self.zone_of(records[-1].rdata.lower(), qtype) is None else ()

    def precompile(self, entry: AnswerEntry, kind: int) -> None:
        """Precompile the responses of the given kind for the fast path.

        ``entry`` must be an entry that the table keeps. If any response may be too long for some client or transport,
        no response of that kind is precompiled. A response with a cookie is precompiled only up to the cookie, which
        the fast path appends. A response with an OPT record leaves room for a client subnet.
        """
        has_cookie = kind >= FIRST_COOKIE_KIND
        flags, edns = QUERY_PARAMETERS[kind]
        payload = self.farm.config.server.payload
        variants = [precompiled_variant(body, flags, edns, has_cookie, payload) for body in entry.bodies]
        added = CLIENT + SERVER if has_cookie else LONGEST_SUBNET if edns else 0
        around = 2 + len(entry.key) + added
        longest = max(len(head) + len(tail) for head, tail in variants)
        fragments: Sequence[Fragment] = ()
        if entry.lists:
            fragments = entry.lists.fragments(entry.bodies)
            longest += longest_addition(fragments, entry.lists.cursor.answers)
        if around + longest > LEAST_PAYLOAD or (entry.lists and not entry.lists.has_distinct_addresses):
            entry.variants[kind] = ()
            return
        entry.variants[kind] = ListVariants(entry.lists.cursor, variants, fragments) if entry.lists else variants
        if self.native and not entry.client_orders:
            cursor = entry.cursor.number if entry.cursor else None
            self.native.keep(entry.key, cursor, entry.family, kind, variants, fragments)
        self._pass_on(entry, kind)

    def follow_with(self, follower: AnswerFollower | None) -> None:
        """Pass all precompiled responses to ``follower``, and those to come. None: end this."""
        self.follower = follower
        for entry in self.entries.values():
            for kind in range(KINDS):
                self._pass_on(entry, kind)

    def _pass_on(self, entry: AnswerEntry, kind: int) -> None:
        variants = entry.variants[kind]
        if self.follower and variants and not entry.client_orders and not entry.lists:
            self.follower.keep(entry.key, entry.cursor, entry.family, kind, variants, entry.queries)

    def forget_entries(self) -> None:
        """Drop all entries, but keep their query counts."""
        if self.native:
            self._add_native_counts(self.native.forget())
        if self.follower:
            self.follower.forget()
        for counter, count in self._entry_counts():
            self.count(counter, count)
        for entry in self.entries.values():
            entry.keep(False)
        self.entries = {}

    def count(self, counter: tuple[str, int, str, int], count: int = 1) -> None:
        """Count queries whose question has no entry in the table. ``counter`` is (zone, type, transport, RCODE)."""
        zone, qtype, transport, rcode = counter
        counter = (zone, counted_type(qtype), transport, rcode)
        self._counts[counter] = self._counts.get(counter, 0) + count

    def queries(self) -> QueryCounts:
        """Return the number of queries answered so far, keyed by (zone, type, transport, RCODE)."""
        total = dict(self._counts)
        for counter, count in self._entry_counts():
            total[counter] = total.get(counter, 0) + count
        return total

    def _entry_counts(self) -> Iterable[tuple[tuple[str, int, str, int], int]]:
        if self.native:
            self._add_native_counts(self.native.take_counts())
        if self.follower:
            self.follower.count()
        for entry in self.entries.values():
            for transport, count in zip(TRANSPORTS, entry.queries, strict=True):
                if count:
                    yield (entry.zone, counted_type(entry.qtype), transport, entry.rcode), count

    def _add_native_counts(self, counts: Iterable[tuple[bytes, int]]) -> None:
        for key, count in counts:
            self.entries[key].queries[UDP] += count

    def take_over(self, old: AnswerTable) -> None:
        """Carry over the counters and rotations from ``old``, the table in use before the reload.

        Call this method before the table answers any query.
        """
        self._counts = old.queries()
        take_over_counts(self.cursors, self.farm, old.cursors, old.farm)


def counted_type(qtype: int) -> int:
    """Return the type under which queries for ``qtype`` are counted."""
    return qtype if qtype in TYPE_NAMES else OTHER_TYPE


def _is_letters(qtype: int) -> bool:
    """Return whether either byte of the type is an ASCII letter. If so, lower-casing the question could change the
    type."""
    return any(0x41 <= octet <= 0x5A or 0x61 <= octet <= 0x7A for octet in qtype.to_bytes(2, "big"))
