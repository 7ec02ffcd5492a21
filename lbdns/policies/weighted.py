"""``weighted``: smooth weighted round robin in proportion to estimated capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbdns.policies.plan import Handed, Plan, PoolView
from lbdns.policies.spread import spread
from lbdns.policies.suspicion import trusted

if TYPE_CHECKING:
    from random import Random


def weighted(view: PoolView, handed: Handed | None, chance: Random) -> Plan:
    """The plan of policy ``weighted``."""
    candidates = trusted(view)
    capacities = {i: view.members[i].capacity * view.members[i].ramp for i in candidates}
    total = sum(capacities.values())
    shares = [capacities.get(i, 0.0) / total for i in range(len(view.members))]
    return spread(view, shares, handed)
