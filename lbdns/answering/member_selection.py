"""Member selection: picks the member for an answer, based on the plan, address family affinity and retransmissions.

A plan is a sequence of members. Each answer uses the next position in the plan, with two exceptions. A retransmitted
query gets the same member again, so that a rotation counts clients, not datagrams. A client that queries a name for A
and AAAA (and HTTPS) opens one connection, so the answers to all these queries name the same member.

Sans-I/O: the caller supplies the time. Memory is bounded: both caches have a fixed number of slots. If a client's slot
is overwritten, the only effect is that the client uses one extra position in the plan.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lbdns.answering.dns_constants import TCP, Type
from lbdns.answering.plan_position import PlanPosition

if TYPE_CHECKING:
    import lbdns_native

RETRANSMISSION_SLOTS: Final = 65_536
RETRANSMISSION_WINDOW: Final = 6.0  # s: resolvers repeat a query after 0.4 to 5 s
AFFINITY_SLOTS: Final = 16_384
OPEN: Final = 4  # lookups of one slot that queries can still join
#: Factors by which a gap between queries must be shorter than another gap
SOON, CLEARLY, VERY_SOON = 2.0, 4.0, 16.0
LONG: Final = 0.05  # s: longer than a busy machine usually delays a query
GROWTH: Final = 1.25  # the usual pause is the shortest one, but grows by this factor with each lookup
UNTESTED, CONTRARY, CERTAIN, MOST = 6, 4, 8, 32  # votes: initial, lost by a contrary vote, sufficient, maximum
DOUBTS: Final = 3  # consecutive lookups after which the next one is decisive
_BEGINS, _DOUBTFUL = -1, -2  # a new lookup begins; if doubtful, the query may belong to the current one
#: Numbers the types that a client queries together to open one connection. Browsers query all three at once.
FAMILY_TYPES: Final[Mapping[int, int]] = {Type.A: 0, Type.AAAA: 1, Type.HTTPS: 2}


class PlanCursor(PlanPosition):
    """The plan for one pool and policy, and the next member in it."""

    __slots__ = ("affinity_window", "number", "others")

    def __init__(self, members: int, number: int = 0, affinity_window: float = 0.0) -> None:
        """Begin with a plan that selects members 0 to ``members - 1`` in turn.

        ``number`` is unique within one answer table. For ``affinity_window`` seconds, a client's queries for the types
        in FAMILY_TYPES get the same member.
        """
        self.number = number
        self.affinity_window = affinity_window
        self.others: tuple[PlanCursor, ...] = ()  # for clients that use the pool's sites in another order
        super().__init__(members)

    def next(self) -> int:
        """Advance to the next position in the plan, and return the member at that position."""
        at = self._at
        if at == len(self.order):
            self._passes += 1
            at = self.plan.repeat_from
        self._at = at + 1
        return self.order[at]

    def _position(self) -> tuple[int, int]:
        return self._at, self._passes

    @property
    def _next_index(self) -> int:
        at, _ = self._position()
        return at if at < len(self.order) else self.plan.repeat_from

    @property
    def due(self) -> int:
        """The member that ``next`` would return."""
        return self.order[self._next_index]

    def is_same(self, one: int, other: int) -> bool:
        """Return whether two results of ``next`` or ``due`` stand for the same selection."""
        return one == other


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

    def count_repeated(self) -> None:
        """Count a query that got the same member again."""
        self.repeated += 1


# The cells of a slot of FamilyAffinity. Times are in monotonic seconds, and lookups have numbers below OPEN
_MARK: Final = 0  # the client and cursor that own the slot
_NEWEST: Final = 1  # the time of the client's newest query ...
_CURRENT: Final = 2  # ... and the lookup that it belongs to
_FIRST: Final = 3  # the first type of the current lookup, or -1 if a query has joined it
_WAITED: Final = 4  # the pause before the current lookup
_LAST: Final = 5  # the lookup that began last
_PAUSE: Final = 6  # the client's usual pause before a lookup, or 0 if unknown
_USUAL: Final = 7  # the type with which the client's lookups usually begin ...
_VOTES: Final = 8  # ... and the votes for it
_DOUBTS: Final = 9  # number of consecutive lookups that began although rule 5 nearly applied
_LACKING: Final = 10  # bits: the lookups that lack the first type, then those that lack the second type, ...
_JOINED: Final = 11  # 0 if no query has joined any of the lookups
_TIMES: Final = 12  # by type: the time of the newest query
_BEGAN: Final = _TIMES + len(FAMILY_TYPES)  # by lookup: the time of its first query
_MEMBERS: Final = _BEGAN + OPEN  # by lookup
_PORTS: Final = _MEMBERS + OPEN  # by lookup and type: the source port of the query, or -1
_EMPTY: Final = (
    *(None, 0.0, 0, -1, 0.0, 0, 0.0, 0, UNTESTED, 0, 0, 0), *[0.0] * len(FAMILY_TYPES),
    *[-math.inf] * OPEN, *[0] * OPEN, *[-1] * (OPEN * len(FAMILY_TYPES)),
)  # fmt: skip
_OF_TYPE: Final = tuple(((1 << OPEN) - 1) << family * OPEN for family in FAMILY_TYPES.values())  # in _LACKING
_OF_LOOKUP: Final = tuple(sum(1 << family * OPEN for family in FAMILY_TYPES.values()) << n for n in range(OPEN))
#: By the lookup that began last: all lookups, newest first
_NEWEST_FIRST: Final = tuple(tuple((last - back) % OPEN for back in range(OPEN)) for last in range(OPEN))


class FamilyAffinity:
    """Groups each client's queries into lookups: the answers to all queries of a lookup name the same member.

    A client sends the queries of a lookup, one for each type, before it connects. The first query uses a position in
    the plan, and the other queries join its lookup. Because queries do not state which lookup they belong to, the rules
    below decide; the first rule that applies wins. The *current lookup* is the lookup of the client's newest query.

    1. If a lookup has a query from the same port but no query of the same type, the query joins that lookup.
    2. If the client's lookups usually begin with the query's type, the query begins a new lookup. There is one
       exception, because resolvers and networks may reorder queries: if the current lookup began a moment ago and has
       no query of the same type, the query joins it.
    3. If the current lookup has no query of the same type, the query joins it.
    4. If the current lookup already has a query of the same type, another program may have sent that earlier query. The
       new query therefore joins the lookup if the earlier query came from another port, but the lookup also has a query
       of another type from the new query's port.
    5. Two times are compared: the time since the current lookup's newest query, and the time between the earlier query
       of the same type and that newest query. If the first time is much shorter, the new query also joins the lookup.
    6. A query joins the newest lookup that has no query of the same type, not the oldest one. Suppose that a client
       sends an A query without an AAAA query. If AAAA queries joined the oldest lookup, each later AAAA query would
       join the lookup before its own, until the client paused.
    7. All other queries begin a lookup.
    """

    __slots__ = ("_slots", "coherent")

    def __init__(self) -> None:
        # A slot without a client has no cells of its own: to create them all takes 40 ms, in which a reload would
        # delay queries. Lists, because arrays would create a new object each time a number is read
        self._slots: list[Sequence[Any]] = [_EMPTY] * AFFINITY_SLOTS
        self.coherent = 0  # queries that joined a lookup

    @staticmethod
    def mark(host: str, number: int) -> int:
        """Return one hash of two values: a client's address and a cursor's number."""
        return hash((host, number))

    def member(self, mark: int, port: int, family: int, now: float, window: float) -> int | None:
        """Return the member that a query for ``family`` (a value of FAMILY_TYPES) would get by joining a lookup.

        Changes nothing. Returns None if the query would begin a lookup. Only lookups that began less than ``window``
        seconds before ``now`` (monotonic seconds) can be joined.
        """
        cells = self._slots[mark % AFFINITY_SLOTS]
        number = _find(cells, port, family, now, window) if cells[_MARK] == mark else _BEGINS
        return None if number < 0 else int(cells[_MEMBERS + number])

    def give(self, cursor: PlanCursor, host: str, port: int, family: int, now: float) -> int:
        """Join a lookup if possible; otherwise, use the next position in the plan. Return the selected member.

        If the lookup's member is no longer usable, the next member in the plan replaces it in the lookup.
        """
        mark = hash((host, cursor.number))
        cells: list[Any] = self._slots[mark % AFFINITY_SLOTS]  # type: ignore[assignment]  # a tuple only if empty
        if cells[_MARK] != mark:
            cells = self._slots[mark % AFFINITY_SLOTS] = list(_EMPTY)
            cells[_MARK], cells[_NEWEST] = mark, now
        elif cells[_JOINED] or cells[_LACKING] & _OF_TYPE[family]:  # otherwise, the client queries only one type
            number = _find(cells, port, family, now, cursor.affinity_window)
            if number >= 0:
                _join(cells, number, port, family, now)
                member: int = cells[_MEMBERS + number]
                if member in cursor.usable:
                    self.coherent += 1
                else:
                    member = cells[_MEMBERS + number] = cursor.next()
                return member
            if cells[_JOINED]:
                cells[_JOINED] -= 1
            cells[_DOUBTS] = cells[_DOUBTS] + 1 if number == _DOUBTFUL else 0
        member = cursor.next()
        gap, pause = now - cells[_NEWEST], GROWTH * cells[_PAUSE]
        cells[_WAITED] = gap
        cells[_PAUSE] = pause if 0.0 < pause < gap else gap
        cells[_LAST] = cells[_CURRENT] = number = (cells[_LAST] + 1) % OPEN
        cells[_LACKING] = (cells[_LACKING] | _OF_LOOKUP[number]) & ~(1 << family * OPEN + number)
        cells[_FIRST] = family
        cells[_NEWEST] = cells[_TIMES + family] = cells[_BEGAN + number] = now
        cells[_MEMBERS + number], place = member, _PORTS + number * len(FAMILY_TYPES)
        cells[place] = cells[place + 1] = cells[place + 2] = -1
        cells[place + family] = port
        return member


def _find(cells: Sequence[Any], port: int, family: int, now: float, window: float) -> int:
    """Return the number of the lookup that a query joins. If the query begins a new lookup, return _BEGINS, or
    _DOUBTFUL if it may belong to the current lookup."""
    current: int = cells[_CURRENT]
    lacking = (cells[_LACKING] & _OF_TYPE[family]) >> family * OPEN
    is_open = now - cells[_BEGAN + current] < window
    lacks = is_open and lacking >> current & 1
    lookups: Sequence[int] = ()  # the others that lack the type, newest first
    if others := lacking & ~(1 << current):
        lookups = [n for n in _NEWEST_FIRST[cells[_LAST]] if others >> n & 1 and now - cells[_BEGAN + n] < window]
        if port in cells[_PORTS:] and not (lacks and port in _ports(cells, current)):
            for number in lookups:
                if port in _ports(cells, number):
                    return number
    begins = cells[_USUAL] == family and cells[_VOTES] >= CERTAIN
    if lacks:
        late = begins and SOON * (now - cells[_NEWEST]) >= cells[_WAITED]
        return _BEGINS if late and port not in _ports(cells, current) else current
    found = _compare_gaps(cells, port, family, now) if is_open else _BEGINS
    return lookups[0] if lookups and found == _BEGINS and not begins else found


def _ports(cells: Sequence[Any], number: int) -> Sequence[int]:
    place = _PORTS + number * len(FAMILY_TYPES)
    return cells[place : place + len(FAMILY_TYPES)]


def _compare_gaps(cells: Sequence[Any], port: int, family: int, now: float) -> int:
    """Apply rules 4 and 5 to a query whose type the current lookup already has. Return the result of ``_find``.

    Rule 5 compares two times. Any query may be delayed, so a difference between the two times proves little by itself.
    The difference is sufficient proof if the client's lookups are known to begin with another type, or if the previous
    lookups showed the same difference. Otherwise, the difference must be so large that the client's usual pauses
    between lookups cannot explain it.
    """
    ports = _ports(cells, cells[_CURRENT])
    if port in ports and port != ports[family]:
        return int(cells[_CURRENT])
    gap, before = now - cells[_NEWEST], cells[_NEWEST] - cells[_TIMES + family]
    may_begin = cells[_USUAL] == family
    if (CLEARLY if may_begin else SOON) * gap >= before:
        return _BEGINS
    sure = cells[_DOUBTS] >= DOUBTS or (cells[_VOTES] >= CERTAIN and not may_begin)
    if not sure and VERY_SOON * gap < before:
        sure = CLEARLY * gap < cells[_PAUSE] or (before > LONG and not may_begin)
    return int(cells[_CURRENT]) if sure else _DOUBTFUL


def _join(cells: list[Any], number: int, port: int, family: int, now: float) -> None:
    bit = 1 << family * OPEN + number
    if number != cells[_CURRENT]:
        cells[_CURRENT], cells[_WAITED] = number, 0.0
        cells[_TIMES:_BEGAN] = [cells[_BEGAN + number]] * len(FAMILY_TYPES)
    elif not cells[_LACKING] & bit:
        if cells[_DOUBTS] >= DOUBTS:
            cells[_PAUSE] = cells[_NEWEST] - cells[_TIMES + family]  # the earlier value was wrong
        cells[_DOUBTS] = 0
    elif cells[_FIRST] >= 0 and CLEARLY * (now - cells[_NEWEST]) < cells[_WAITED]:
        _vote(cells)
    cells[_FIRST] = -1
    cells[_JOINED] = OPEN
    cells[_LACKING] &= ~bit
    cells[_NEWEST] = cells[_TIMES + family] = now
    cells[_PORTS + number * len(FAMILY_TYPES) + family] = port


def _vote(cells: list[Any]) -> None:
    if cells[_FIRST] == cells[_USUAL]:
        cells[_VOTES] = min(MOST, cells[_VOTES] + 1)
    elif cells[_VOTES] >= CONTRARY:
        cells[_VOTES] -= CONTRARY
    else:
        cells[_USUAL], cells[_VOTES] = cells[_FIRST], 1


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

        The first two items of ``client`` are the client's address and port. A query over TCP is never a retransmission,
        because TCP itself retransmits lost segments.
        """
        now = self.now
        if transport == TCP:
            return cursor.next() if family is None else self.affinity.give(cursor, client[0], client[1], family, now)
        retransmissions, host = self.retransmissions, client[0]
        mark = retransmissions.mark(host, client[1], query)
        member = retransmissions.member(mark, now)
        # Even a retransmission gets another member if its previous one is no longer usable
        if member is not None and member in cursor.usable:
            retransmissions.count_repeated()
            return member
        member = cursor.next() if family is None else self.affinity.give(cursor, host, client[1], family, now)
        retransmissions.note(mark, member, now)
        return member

    def due(self, cursor: PlanCursor, family: int | None, query: bytes, client: tuple[Any, ...], transport: int) -> int:
        """Return the member that ``select`` would return, without making a selection."""
        now, member = self.now, None
        if transport != TCP:
            member = self.retransmissions.member(self.retransmissions.mark(client[0], client[1], query), now)
        if family is not None and member not in cursor.usable:
            mark = self.affinity.mark(client[0], cursor.number)
            member = self.affinity.member(mark, client[1], family, now, cursor.affinity_window)
        return member if member is not None and member in cursor.usable else cursor.due
