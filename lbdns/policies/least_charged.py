"""``least_charged``: each answer to whom it fills least, counting what was handed out since the member's report.

Joins the shortest queue as far as stale reports show queues. Best at low rates and behind caches.
"""

from __future__ import annotations

from heapq import heapify, heapreplace
from typing import TYPE_CHECKING

from lbdns.policies.charging import Charges
from lbdns.policies.plan import Handed, Plan, PoolView, rotation
from lbdns.policies.spread import plan_length

if TYPE_CHECKING:
    from random import Random


def least_charged(view: PoolView, handed: Handed | None, chance: Random) -> Plan:
    """The plan of policy ``least_charged``; members that are equally full take turns."""
    charges = Charges(view)
    turns = rotation(charges.members, handed).order
    heap = [(charges.fullness(member), turn, member) for turn, member in enumerate(turns)]
    heapify(heap)
    order = []
    for turn in range(len(turns), len(turns) + plan_length(view)):
        member = heap[0][2]
        order.append(member)
        charges.charge(member)
        heapreplace(heap, (charges.fullness(member), turn, member))
    return Plan(tuple(order))
