"""``least_charged``: selects the least loaded member, counting selections since the member's last report.

The policy approximates join-shortest-queue with delayed reports. The policy works best at low query rates and behind
caches.
"""

from __future__ import annotations

from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, Final

from lbdns.policies.plan import Plan, PolicySpec, PoolView, Selections, rotation
from lbdns.policies.ranking import by_fullness
from lbdns.policies.weighted import plan_length

if TYPE_CHECKING:
    from random import Random


class ChargedLoads:
    """Each member's load relative to its capacity, including the charge for each selection since its last report.

    ``members`` lists the indexes of the members that may be selected. One selection counts as ``view.multiplier``
    requests, because other processes and DNS servers make selections at the same time.
    """

    def __init__(self, view: PoolView) -> None:
        self.members = view.on_time
        self._multiplier = view.multiplier
        columns = view.columns
        self._loads = [load + charge for load, charge in zip(columns.loads, columns.charges, strict=True)]
        capacities = columns.weighed(range(len(columns)), columns.capacities)
        self._capacities = [max(capacity, 1e-9) for capacity in capacities]

    def fullness(self, member: int) -> float:
        """Return the time in seconds that ``member`` would need, at full capacity, for its load after one more
        selection.
        """
        return (self._loads[member] + self._multiplier) / self._capacities[member]

    def charge(self, member: int) -> None:
        """Add one selection to the load of ``member``."""
        self._loads[member] += self._multiplier


def least_charged(view: PoolView, previous: Selections | None, rng: Random) -> Plan:
    """Return a plan for policy ``least_charged``; equally loaded members take turns."""
    charges = ChargedLoads(view)
    turns = rotation(charges.members, previous).order
    heap = [(charges.fullness(member), turn, member) for turn, member in enumerate(turns)]
    heapify(heap)
    order = []
    for turn in range(len(turns), len(turns) + plan_length(view)):
        member = heap[0][2]
        order.append(member)
        charges.charge(member)
        heapreplace(heap, (charges.fullness(member), turn, member))
    return Plan(tuple(order))


LEAST_CHARGED: Final = PolicySpec(
    "least_charged",
    least_charged,
    why="lowest load relative to capacity, including selections since the last report",
    rank=by_fullness,
)
