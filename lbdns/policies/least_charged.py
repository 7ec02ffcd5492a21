"""``least_charged``: each answer names the least full member, counting selections since that member's last report.

It approximates join-shortest-queue with delayed reports. It works best at low rates and behind caches.
"""

from __future__ import annotations

from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, Final

from lbdns.policies.greedy_charging import ChargedLoads
from lbdns.policies.plan import Plan, PolicySpec, PoolView, Selections, rotation
from lbdns.policies.smooth_weights import plan_length

if TYPE_CHECKING:
    from random import Random


def least_charged(view: PoolView, previous: Selections | None, rng: Random) -> Plan:
    """Return a plan of policy ``least_charged``; members that are equally full take turns."""
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
    "least_charged", least_charged, why="least full for its capacity, counting selections since its last report"
)
