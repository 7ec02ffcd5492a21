"""The members of a pool as policies see them: one by one, or by column, which takes far less time in large pools."""

from __future__ import annotations

import math
import operator
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, overload

Item = TypeVar("Item")


# Not frozen: a frozen class takes several times as long to construct
@dataclass(slots=True)
class MemberView:
    """One member as a policy sees it. Policies must not change it: use ``dataclasses.replace``."""

    usable: bool  # may be selected; while the pool fails open, every member that is not drained
    overdue: bool  # usable, but its report is overdue
    score: int
    load: float  # requests that it serves or queues now
    capacity: float  # requests/s, or any unit proportional to it
    cores: float = 1.0  # may be a fraction
    proven_capacity: float = math.inf  # its capacity if its cores were as fast as the fastest of the other members
    charge: float = 0.0  # requests expected from the selections since its report, including those of other DNS servers
    available_share: float = 1.0  # share of its capacity that other programs on its host leave to it, above 0
    alarmed: bool = False  # it gives an alarm, but the other members cannot carry the load without it
    ramp: float = 1.0  # share of its weight during slow start, above 0; 1 when it has none
    other_tasks: float = 0.0  # runnable tasks of other programs on its host, which its load may include
    standstill: float = 0.0  # s for which a request waits because its host stands still


@dataclass(frozen=True, slots=True)
class MemberColumns(Sequence[MemberView]):
    """The fields of all ``MemberView`` of a pool by column, in the pool's order. An item is made when it is read.

    Fields that few members have are collections of indexes, or map the indexes of those members to their values.
    """

    candidates: Sequence[int]  # the usable members, in ascending order
    overdue: Collection[int]
    scores: Sequence[int]
    loads: Sequence[float]
    capacities: Sequence[float]
    cores: Sequence[float]
    proven_capacities: Sequence[float]
    charges: Sequence[float]
    available_shares: Sequence[float]
    alarmed: Collection[int]
    ramps: Mapping[int, float]
    other_tasks: Mapping[int, float]
    standstills: Mapping[int, float]
    #: The requests/s that each member can serve alongside the other programs on its host, reduced during slow start
    usable_capacities: Sequence[float] = field(init=False)

    def __post_init__(self) -> None:
        left = list(map(operator.mul, self.capacities, self.available_shares))
        object.__setattr__(self, "usable_capacities", self.weighed(range(len(self)), left))

    @classmethod
    def of(cls, members: Iterable[MemberView]) -> MemberColumns:
        """Return the columns of ``members``."""
        kept = tuple(members)
        return cls(
            [i for i, member in enumerate(kept) if member.usable],
            frozenset(i for i, member in enumerate(kept) if member.overdue),
            [member.score for member in kept],
            [member.load for member in kept],
            [member.capacity for member in kept],
            [member.cores for member in kept],
            [member.proven_capacity for member in kept],
            [member.charge for member in kept],
            [member.available_share for member in kept],
            frozenset(i for i, member in enumerate(kept) if member.alarmed),
            {i: member.ramp for i, member in enumerate(kept) if member.ramp != 1.0},
            {i: member.other_tasks for i, member in enumerate(kept) if member.other_tasks},
            {i: member.standstill for i, member in enumerate(kept) if member.standstill},
        )

    def __len__(self) -> int:
        return len(self.scores)

    @overload
    def __getitem__(self, i: int) -> MemberView: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[MemberView]: ...
    def __getitem__(self, i: int | slice) -> MemberView | Sequence[MemberView]:
        if isinstance(i, slice):
            return [self[at] for at in range(*i.indices(len(self)))]
        at = range(len(self))[i]
        return MemberView(
            usable=self._is_candidate(at),
            overdue=at in self.overdue,
            score=self.scores[at],
            load=self.loads[at],
            capacity=self.capacities[at],
            cores=self.cores[at],
            proven_capacity=self.proven_capacities[at],
            charge=self.charges[at],
            available_share=self.available_shares[at],
            alarmed=at in self.alarmed,
            ramp=self.ramps.get(at, 1.0),
            other_tasks=self.other_tasks.get(at, 0.0),
            standstill=self.standstills.get(at, 0.0),
        )

    def _is_candidate(self, member: int) -> bool:
        place = bisect_left(self.candidates, member)
        return place < len(self.candidates) and self.candidates[place] == member

    def weighed(self, members: Sequence[int], capacities: Sequence[float]) -> list[float]:
        """Return the ``capacities`` of ``members``, reduced during slow start. ``capacities`` has an item for each
        member of the pool."""
        ramps = self.ramps
        if not ramps:
            return gathered(capacities, members)
        return [capacities[i] * ramps.get(i, 1.0) for i in members]


def gathered(column: Sequence[Item], members: Sequence[int]) -> list[Item]:
    """Return the items of a column that belong to ``members``, which are in ascending order."""
    if len(members) == len(column):
        return list(column)
    return [column[i] for i in members]
