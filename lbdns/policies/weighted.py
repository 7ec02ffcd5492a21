"""``weighted``: smooth weighted round robin in proportion to estimated capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lbdns.policies.overdue_reports import without_overdue
from lbdns.policies.plan import Plan, PolicySpec, PoolView, Selections
from lbdns.policies.smooth_weights import smooth_plan

if TYPE_CHECKING:
    from random import Random


def weighted(view: PoolView, previous: Selections | None, rng: Random) -> Plan:
    """Return a plan of policy ``weighted``."""
    candidates = without_overdue(view)
    capacities = {i: view.members[i].capacity * view.members[i].ramp for i in candidates}
    total = sum(capacities.values())
    shares = [capacities.get(i, 0.0) / total for i in range(len(view.members))]
    return smooth_plan(view, shares, previous)


WEIGHTED: Final = PolicySpec("weighted", weighted, why="in proportion to capacity", weighs_load=True)
