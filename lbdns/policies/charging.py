"""Hand-outs that are charged to the members one after another until their next reports: plans made greedily. Pure."""

from __future__ import annotations

from lbdns.policies.plan import PoolView
from lbdns.policies.suspicion import trusted


class Charges:
    """How full each of a pool's trusted members is: its load, what was handed out since, by capacity.

    A hand-out stands for ``view.multiple``: other processes and servers give theirs at the same time.
    """

    def __init__(self, view: PoolView) -> None:
        self.members = trusted(view)
        self._multiple = view.multiple
        self._loads = [member.load + member.charge for member in view.members]
        self._capacities = [max(member.capacity * member.ramp, 1e-9) for member in view.members]

    def fullness(self, member: int) -> float:
        """How full it would be with one hand-out more, against others."""
        return (self._loads[member] + self._multiple) / self._capacities[member]

    def charge(self, member: int) -> None:
        self._loads[member] += self._multiple
