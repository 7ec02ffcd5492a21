"""``two_choices``: each answer names the less loaded of two members drawn at random (power of two choices).

The policy cannot cause severe herding, regardless of the number of DNS servers. The policy spreads answers less evenly
than the deterministic policies. Source: M. Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing"
(1996).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lbdns.policies.least_charged import ChargedLoads
from lbdns.policies.plan import Plan, PolicySpec, PoolView, Selections
from lbdns.policies.ranking import by_fullness
from lbdns.policies.weighted import plan_length

if TYPE_CHECKING:
    from random import Random


def two_choices(view: PoolView, previous: Selections | None, rng: Random) -> Plan:
    """Return a plan for policy ``two_choices``; all random draws are made here, in advance."""
    charges = ChargedLoads(view)
    if len(charges.members) == 1:
        return Plan((charges.members[0],))
    order = []
    for _ in range(plan_length(view)):
        member = min(rng.sample(charges.members, 2), key=charges.fullness)
        order.append(member)
        charges.charge(member)
    return Plan(tuple(order))


TWO_CHOICES: Final = PolicySpec(
    "two_choices", two_choices, why="the less loaded of two members drawn at random", rank=by_fullness
)
