"""Member selection: picks the member for an answer, based on the plan, address family affinity and retransmissions.

A plan is a sequence of members. Each answer uses the next position in the plan, except in two cases:

- A retransmitted query gets the same member again, so that a rotation counts clients, not datagrams.
- A client that queries a name for A and AAAA (and HTTPS) opens one connection, so the answers to all these queries name
  the same member.

Sans-I/O: the caller supplies the time. Memory is bounded: both caches have a fixed number of slots, and a new client or
query overwrites the slot's old content. A client whose slot was overwritten uses one extra position in the plan.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lbdns.answering.dns_constants import TCP, Type
from lbdns.policies.plan import Plan, Selections

if TYPE_CHECKING:
    import lbdns_native

RETRANSMISSION_SLOTS: Final = 65_536
RETRANSMISSION_WINDOW: Final = 6.0  # s: resolvers repeat a query after 0.4 to 5 s
AFFINITY_SLOTS: Final = 16_384
OPEN: Final = 8  # selections of one slot that another type can still join
#: Numbers the types that a client queries together to open one connection. Browsers query all three at once.
FAMILY_TYPES: Final[Mapping[int, int]] = {Type.A: 0, Type.AAAA: 1, Type.HTTPS: 2}


class PlanCursor:
    """The plan for one pool and policy, and the current position in that plan.

    ``next`` only advances a counter. Per-member counts are computed on request, from the plan's order and the current
    position.
    """

    __slots__ = ("_at", "_before", "_last", "_passes", "affinity_window", "number", "order", "plan", "usable")

    def __init__(self, members: int, number: int = 0, affinity_window: float = 0.0) -> None:
        """Begin with a plan that selects members 0 to ``members - 1`` in turn.

        ``number`` is unique within one answer table. For ``affinity_window`` seconds, a client's queries for the types
        in FAMILY_TYPES get the same member.
        """
        self.number = number
        self.affinity_window = affinity_window
        self._before = [0] * members  # number of selections made by earlier plans, by member
        self._last: int | None = None  # the last selection made by an earlier plan
        plan = Plan(tuple(range(members)))
        self._begin(plan, frozenset(plan.order))

    def _begin(self, plan: Plan, usable: frozenset[int]) -> None:
        self.plan = plan
        self.order: Sequence[int] = plan.order
        self.usable = usable
        self._at = 0
        self._passes = 0  # how often the end of the order was reached

    def set_plan(self, plan: Plan, usable: Collection[int] | None = None) -> None:
        """Follow ``plan`` from its beginning.

        A plan may omit usable members. ``usable`` lists all usable members (default: the plan's members); a client that
        was already sent to a usable member may be sent to that member again.
        """
        self._before, self._last = self.totals(), self.last
        self._begin(plan, frozenset(plan.order if usable is None else usable))

    def next(self) -> int:
        """Advance to the next position in the plan, and return the member at that position."""
        at = self._at
        if at == len(self.order):
            self._passes += 1
            at = self.plan.repeat_from
        self._at = at + 1
        return self.order[at]

    def _position(self) -> tuple[int, int]:
        """Return the current position in the plan's order, and how many times the end of the order has been reached."""
        return self._at, self._passes

    @property
    def taken(self) -> int:
        """The number of positions used so far in the current plan."""
        at, passes = self._position()
        return at + passes * (len(self.order) - self.plan.repeat_from)

    @property
    def due(self) -> int:
        """The member that ``next`` would return."""
        at, _ = self._position()
        return self.order[at if at < len(self.order) else self.plan.repeat_from]

    @property
    def last(self) -> int | None:
        """The member selected last by this or an earlier plan, or None before the first selection."""
        at, _ = self._position()
        return self.order[at - 1] if at else self._last

    def counts(self) -> Counter[int]:
        """Return how many times the current plan has selected each member."""
        at, passes = self._position()
        if not passes:
            return Counter(self.order[:at])
        repeated = self.plan.repeat_from
        counts = Counter(self.order) + Counter(self.order[repeated:at])
        for member, count in Counter(self.order[repeated:]).items():
            counts[member] += count * (passes - 1)
        return counts

    def totals(self) -> list[int]:
        """Return how many times each member has been selected since the start."""
        counts = self.counts()
        return [before + counts[i] for i, before in enumerate(self._before)]

    def selections(self) -> Selections:
        """Return the current plan's selections in the form that policies expect."""
        counts = self.counts()
        return Selections(self.plan, tuple(counts[i] for i in range(len(self._before))), self.last)

    def take_over(self, old: PlanCursor, mapping: Sequence[int | None]) -> None:
        """Continue the totals and rotation of ``old``. Call this method before the first call of ``next``.

        ``mapping`` contains the new index of each member of ``old``, or None for a member that was removed.
        """
        for now, total in zip(mapping, old.totals(), strict=True):
            if now is not None:
                self._before[now] += total
        self._last = mapping[old.last] if old.last is not None else None


class NativePlanCursor(PlanCursor):
    """A plan cursor whose counter is stored in the native table, where the native fast path advances the counter."""

    __slots__ = ("cursor", "store")

    def __init__(self, members: int, store: lbdns_native.AnswerTable, affinity_window: float = 0.0) -> None:
        self.store = store
        self.cursor = store.add_cursor(affinity_window)
        super().__init__(members, self.cursor, affinity_window)

    def _begin(self, plan: Plan, usable: frozenset[int]) -> None:
        super()._begin(plan, usable)
        self.store.set_plan(self.cursor, plan.order, plan.repeat_from, tuple(usable))

    def next(self) -> int:
        return self.store.next(self.cursor)

    def _position(self) -> tuple[int, int]:
        return self.store.position(self.cursor)


class RetransmissionCache:
    """Stores the member selected for each recent query, keyed by a hash of the client and the query's bytes.

    Identical queries arrive because a client that receives no response resends its query with the same id from the same
    port, and because networks may duplicate datagrams. The busier the server, the sooner slots are overwritten.
    """

    __slots__ = ("marks", "members", "repeated", "times")

    def __init__(self) -> None:
        self.marks = array("q", bytes(8 * RETRANSMISSION_SLOTS))
        self.members = array("I", bytes(4 * RETRANSMISSION_SLOTS))
        self.times = array("d", bytes(8 * RETRANSMISSION_SLOTS))
        self.repeated = 0  # queries that got the same member again

    @staticmethod
    def mark(host: str, port: int, query: bytes) -> int:
        """Return the hash that identifies this datagram in calls to ``member`` and ``note``."""
        return hash((host, port, query))

    def member(self, mark: int, now: float) -> int | None:
        """Return the member selected earlier for this query, if any. ``now`` is in monotonic seconds."""
        at = mark % RETRANSMISSION_SLOTS
        if self.marks[at] == mark and now - self.times[at] < RETRANSMISSION_WINDOW:
            return self.members[at]
        return None

    def note(self, mark: int, member: int, now: float) -> None:
        at = mark % RETRANSMISSION_SLOTS
        self.marks[at], self.members[at], self.times[at] = mark, member, now


# The cells of a slot of FamilyAffinity. A slot's selections are numbered consecutively, even when the owner changes
_MARK: Final = 0  # the owner
_BEGIN: Final = 1  # the first selection that the owner can join
_END: Final = 2  # the number of the next selection
_NEXT: Final = 3  # by type: the first selection that it has not joined
_TIMES: Final = _NEXT + len(FAMILY_TYPES)  # monotonic seconds of each selection, each followed by the member
_MEMBERS: Final = _TIMES + 1
CELLS: Final = _TIMES + 2 * OPEN


class FamilyAffinity:
    """Stores the members recently selected for each client, so that queries for other types get the same member.

    A client's first query uses a position in the plan, and the client's queries for other types join this selection:
    these queries get the same member. A second query for the same type belongs to the next connection and uses a new
    position. Because many clients may share one resolver's address, several selections stay open, and queries for each
    type join the open selections in order. For example, the first AAAA query joins the first selection made for A, and
    the second AAAA query joins the second selection.
    """

    __slots__ = ("_cells", "coherent")

    def __init__(self) -> None:
        # A list, because an array would create a new object each time a number is read
        self._cells: list[Any] = [0] * (AFFINITY_SLOTS * CELLS)
        self.coherent = 0  # queries that joined the selection of another type

    @staticmethod
    def mark(host: str, number: int) -> int:
        """Return the hash of a client's address and a cursor's number.

        The client's port is excluded, because it varies from query to query.
        """
        return hash((host, number))

    def member(self, mark: int, family: int, since: float) -> int | None:
        """Return the member that a query for ``family`` (a value of FAMILY_TYPES) would get by joining a selection.

        Does not actually join the selection. Returns None if the query can't join any selection made after ``since``
        (monotonic seconds).
        """
        slot = mark % AFFINITY_SLOTS * CELLS
        number = self._number(slot, family, since) if self._cells[slot] == mark else None
        found: int | None = None if number is None else self._cells[slot + number % OPEN * 2 + _MEMBERS]
        return found

    def give(self, cursor: PlanCursor, host: str, family: int, now: float) -> int:
        """Join an open selection or, if there is none to join, use the next position in the plan; return the member.

        If an open selection's member is no longer usable, the next member in the plan replaces it in the selection.
        """
        mark = hash((host, cursor.number))
        cells, slot = self._cells, mark % AFFINITY_SLOTS * CELLS
        end = cells[slot + _END]
        member: int
        if cells[slot] != mark:
            cells[slot] = mark
            cells[slot + _BEGIN] = end
        elif cells[slot + _NEXT + family] < end:
            number = self._number(slot, family, now - cursor.affinity_window)
            if number is not None:
                cells[slot + _NEXT + family] = number + 1
                place = slot + number % OPEN * 2
                member = cells[place + _MEMBERS]
                if member in cursor.usable:
                    self.coherent += 1
                    return member
                member = cells[place + _MEMBERS] = cursor.next()
                return member
        member = cursor.next()
        place = slot + end % OPEN * 2
        cells[place + _TIMES] = now
        cells[place + _MEMBERS] = member
        cells[slot + _END] = cells[slot + _NEXT + family] = end + 1
        return member

    def _number(self, slot: int, family: int, since: float) -> int | None:
        """Return the number of the oldest selection that this type can join, or None if there is no such selection."""
        cells = self._cells
        end: int = cells[slot + _END]
        number: int = max(cells[slot + _NEXT + family], cells[slot + _BEGIN], end - OPEN)
        while number < end:
            if cells[slot + number % OPEN * 2 + _TIMES] > since:
                return number
            number += 1
        return None


class MemberSelector:
    """Selects a member for each query that one responder answers.

    ``family`` is a value of FAMILY_TYPES, or None for a query of any other type.
    """

    __slots__ = ("affinity", "now", "retransmissions")

    def __init__(
        self,
        retransmissions: RetransmissionCache | lbdns_native.RetransmissionCache,
        affinity: FamilyAffinity | lbdns_native.FamilyAffinity,
    ) -> None:
        self.retransmissions, self.affinity = retransmissions, affinity
        self.now = 0.0  # monotonic seconds, set by the responder on each tick

    def select(
        self, cursor: PlanCursor, family: int | None, query: bytes, client: tuple[Any, ...], transport: int
    ) -> int:
        """Select, remember and return a member for ``query``. Call this method only if the response names a member.

        ``client`` begins with the client's host and port. A query over TCP is never a retransmission, because TCP
        itself retransmits lost segments.
        """
        now = self.now
        if transport == TCP:
            return cursor.next() if family is None else self.affinity.give(cursor, client[0], family, now)
        retransmissions, host = self.retransmissions, client[0]
        mark = retransmissions.mark(host, client[1], query)
        member = retransmissions.member(mark, now)
        # Even a retransmission gets another member if its previous one is no longer usable
        if member is not None and member in cursor.usable:
            retransmissions.repeated += 1
            return member
        member = cursor.next() if family is None else self.affinity.give(cursor, host, family, now)
        retransmissions.note(mark, member, now)
        return member

    def due(self, cursor: PlanCursor, family: int | None, query: bytes, client: tuple[Any, ...], transport: int) -> int:
        """Return the member that ``select`` would return, without making a selection."""
        now, member = self.now, None
        if transport != TCP:
            member = self.retransmissions.member(self.retransmissions.mark(client[0], client[1], query), now)
        if family is not None and member not in cursor.usable:
            mark = self.affinity.mark(client[0], cursor.number)
            member = self.affinity.member(mark, family, now - cursor.affinity_window)
        return member if member is not None and member in cursor.usable else cursor.due
