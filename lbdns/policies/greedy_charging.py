"""Greedy charging: track how full each member becomes while a plan assigns selections one by one."""

from __future__ import annotations

from lbdns.policies.overdue_reports import without_overdue
from lbdns.policies.plan import PoolView


class ChargedLoads:
    """Each member's load, with the charge of every selection since its report, in relation to its capacity.

    ``members`` are the indexes to select from. A selection counts as ``view.multiplier`` requests, because other
    processes and DNS servers make theirs at the same time.
    """

    def __init__(self, view: PoolView) -> None:
        self.members = without_overdue(view)
        self._multiplier = view.multiplier
        self._loads = [member.load + member.charge for member in view.members]
        self._capacities = [max(member.capacity * member.ramp, 1e-9) for member in view.members]

    def fullness(self, member: int) -> float:
        """Return how full ``member`` would be after one more selection, in seconds of its capacity."""
        return (self._loads[member] + self._multiplier) / self._capacities[member]

    def charge(self, member: int) -> None:
        """Add one selection to the load of ``member``."""
        self._loads[member] += self._multiplier
