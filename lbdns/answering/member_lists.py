"""Answers that name several members: which members follow the first one, and the cursor that numbers such lists.

The plan selects the first member of each list, as it does for answers that name one member. The list continues with the
members that the plan selects next, and then with the plan's ranking. A client that cannot reach the first member
therefore tries the member that would have been selected next, and the clients of a failed member are distributed in the
same way as the answers.

A ``ListCursor`` returns the number of a list where a ``PlanCursor`` returns a member's index. The retransmission cache
and the address family affinity cache store either of them, so a retransmission gets the whole list again. Sans-I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final
from weakref import proxy

from lbdns.answering.dns_constants import Type
from lbdns.answering.member_selection import PlanCursor
from lbdns.answering.message_writer import AnswerSections, ResponseBody, Variant, write_body
from lbdns.policies.plan import Plan

#: The lists that a cursor remembers. At 10,900 answers per second, this is the time in which a query can be repeated
MAX_LISTS: Final = 65_536
LOOKAHEAD: Final = 64  # selections of a plan that one answer examines: 16 members of similar capacity occur in these
MAX_JOINED: Final = 1024  # responses that are kept for each question and kind: at most 500 kB
_NUMBERS: Final = 2**32  # the caches store unsigned numbers of 32 bits


def list_at(plan: Plan, at: int, usable: Container[int], answers: int) -> tuple[int, ...]:
    """Return at most ``answers`` distinct members, best first, for the selection at index ``at`` of the plan's order.

    The first member is ``plan.order[at]``. All others are ``usable``. In the part of a plan for light traffic, the list
    contains only members of this part before it continues with the ranking.
    """
    order, begin = plan.order, plan.repeat_from
    is_light = plan.light and at < begin
    start = max(at + 1, plan.probes)  # a member that is only probed is no alternative to another member
    end = start + LOOKAHEAD
    ahead = order[start : min(end, begin) if is_light else end]
    again = () if is_light else order[begin : begin + max(0, end - len(order))]
    found = [order[at]]
    for member in chain(ahead, again, plan.ranking):
        if len(found) >= answers:
            break
        if member in usable and member not in found:
            found.append(member)
    return tuple(found)


class ListCursor(PlanCursor):
    """A plan cursor for answers that name up to ``answers`` members; ``next`` and ``due`` return numbers of lists.

    ``usable`` contains the number of a list if the list is still known and its first member is usable.
    """

    __slots__ = ("__weakref__", "_by_index", "_count", "_lists", "_usable", "answers")

    def __init__(self, members: int, number: int = 0, affinity_window: float = 0.0, answers: int = 2) -> None:
        self.answers = answers
        self._lists: list[tuple[int, ...]] = []
        self._count = 0  # lists so far
        super().__init__(members, number, affinity_window)

    def _begin(self, plan: Plan, usable: frozenset[int]) -> tuple[int, int]:
        ended = super()._begin(plan, usable)
        self._usable = usable
        self._by_index: dict[int, tuple[int, ...]] = {}
        self.usable = UsableLists(self)
        return ended

    def next(self) -> int:
        super().next()
        return self._remember(self._at - 1)

    @property
    def due(self) -> int:
        """The number of a list with the members of the list that ``next`` would return."""
        return self._remember(self._next_index)

    @property
    def next_members(self) -> tuple[int, ...]:
        """The members of the list that ``next`` would return, best first."""
        return list_at(self.plan, self._next_index, self._usable, self.answers)

    def members(self, number: int) -> tuple[int, ...]:
        """Return the members of a list that ``next`` or ``due`` has returned, best first.

        Members that are no longer usable are left out, except for the first one. Returns an empty tuple if the list is
        no longer known.
        """
        age = (self._count - 1 - number) % _NUMBERS
        if age >= len(self._lists):
            return ()
        found, usable = self._lists[number % MAX_LISTS], self._usable
        if usable.issuperset(found):
            return found
        return (found[0], *[member for member in found[1:] if member in usable])

    def is_same(self, one: int, other: int) -> bool:
        return self.members(one) == self.members(other)

    def begins_usable(self, number: int) -> bool:
        """Return whether a list is still known and its first member is usable."""
        age = (self._count - 1 - number) % _NUMBERS
        return age < len(self._lists) and self._lists[number % MAX_LISTS][0] in self._usable

    def _remember(self, at: int) -> int:
        found = self._by_index.get(at)
        if found is None:
            found = self._by_index[at] = list_at(self.plan, at, self._usable, self.answers)
        number = self._count % _NUMBERS
        if self._count < MAX_LISTS:
            self._lists.append(found)
        else:
            self._lists[number % MAX_LISTS] = found
        self._count += 1
        return number


class UsableLists(Container[int]):
    """The numbers of those lists of a cursor whose first member is usable. The cursor must outlive this object."""

    __slots__ = ("_cursor",)

    def __init__(self, cursor: ListCursor) -> None:
        # The cursor refers to this object. A cycle would keep its lists in memory after each reload, because a table
        # that is replaced is freed without the garbage collector
        self._cursor = proxy(cursor)

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self._cursor.begins_usable(number)


#: Of a response that names one member: the range of bytes in its tail that holds the member's addresses, and the number
#: of these records, or three zeros if the member has no address of the queried type
Fragment = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class ListWriter:
    """Writes the answers to one question that name several members. An answer to ANY names one member."""

    cursor: ListCursor
    sections: Callable[[int], AnswerSections]  # the answer that names only this member
    qname: bytes  # in lower-case wire form
    qtype: int
    aliases: int  # the number of records that precede the addresses in every answer
    has_distinct_addresses: bool  # whether no two members share an address, so that answers can be joined

    def body(self, number: int) -> ResponseBody:
        """Return the body of the answer that names the members of the list with this number.

        If the first member has no address of the queried type, the answer has none either, as if it named only this
        member: the client connects to the first member by its other address family.
        """
        first, *others = map(self.sections, self.cursor.members(number))
        if first.authority or self.qtype == Type.ANY:
            return write_body(first, self.qname)
        named = set(first.answer)  # two members may share an address, but no RRset contains a record twice
        groups = []
        for answer in others:
            groups.append(tuple(record for record in answer.answer if record not in named))
            named.update(groups[-1])
        return write_body(replace(first, alternatives=tuple(filter(None, groups))), self.qname)

    def fragments(self, bodies: Sequence[ResponseBody]) -> list[Fragment]:
        """Return the fragments of ``bodies``, which name one member each, by member."""
        aliases = AnswerSections(answer=self.sections(0).answer[: self.aliases])
        begin = len(write_body(aliases, self.qname).records)
        return [
            (begin, len(body.records), body.counts[0] - self.aliases)
            if body.counts[0] > self.aliases and self.qtype != Type.ANY
            else (0, 0, 0)
            for body in bodies
        ]


class ListVariants(Sequence[Variant]):
    """The precompiled responses of one kind, indexed by the number of a list; they are joined on first use.

    ``variants`` and ``fragments`` contain, by member, the response that names only this member, and its fragment. If a
    list begins with a member without addresses of the queried type, the answer is this member's response.
    """

    __slots__ = ("_cursor", "_joined", "_parts")

    def __init__(self, cursor: ListCursor, variants: Sequence[Variant], fragments: Sequence[Fragment]) -> None:
        self._cursor = cursor
        self._joined: dict[tuple[int, ...], Variant] = {}
        # By member: head, answer records, tail up to and from the end of the addresses, addresses, their number
        self._parts = [
            (head, int.from_bytes(head[4:6], "big"), tail[:end], tail[end:], tail[begin:end], count)
            for (head, tail), (begin, end, count) in zip(variants, fragments, strict=True)
        ]

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, number: int) -> Variant:  # type: ignore[override]  # there are no slices
        members = self._cursor.members(number)
        joined = self._joined.get(members)
        if joined is None:
            if len(self._joined) >= MAX_JOINED:
                self._joined.clear()
            joined = self._joined[members] = self._join(*members)
        return joined

    def _join(self, first: int, *others: int) -> Variant:
        parts = self._parts
        head, answers, before, after, _, own = parts[first]
        if not own:
            return head, before + after
        pieces = [before]
        for member in others:
            *_, records, count = parts[member]
            pieces.append(records)
            answers += count
        pieces.append(after)
        return b"".join((head[:4], answers.to_bytes(2, "big"), head[6:])), b"".join(pieces)


def longest_addition(fragments: Sequence[Fragment], answers: int) -> int:
    """Return an upper bound on the bytes that ``ListVariants`` add to a response that names one member."""
    return sum(sorted((end - begin for begin, end, _ in fragments), reverse=True)[: answers - 1])
