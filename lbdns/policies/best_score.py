"""``best_score``: the rule of 1999, literally: the highest score; ties take turns. Herds when queries are many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbdns.policies.plan import Handed, Plan, PoolView, highest_score

if TYPE_CHECKING:
    from random import Random


def best_score(view: PoolView, handed: Handed | None, chance: Random) -> Plan:
    """The plan of policy ``best_score``."""
    return highest_score(view, handed)
