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
    total = sum(view.members[i].capacity for i in candidates)
    shares = [0.0] * len(view.members)
    for i in candidates:
        shares[i] = view.members[i].capacity / total
    return spread(view, shares, handed)
