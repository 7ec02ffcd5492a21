"""``two_choices``: each answer to the less filled one of two members drawn by chance (power of two choices).

Can't herd badly, however many DNS servers there are; the draw costs evenness that deterministic policies keep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbdns.policies.charging import Charges
from lbdns.policies.plan import Handed, Plan, PoolView
from lbdns.policies.spread import plan_length

if TYPE_CHECKING:
    from random import Random


def two_choices(view: PoolView, handed: Handed | None, chance: Random) -> Plan:
    """The plan of policy ``two_choices``, drawn ahead."""
    charges = Charges(view)
    if len(charges.members) == 1:
        return Plan((charges.members[0],))
    order = []
    for _ in range(plan_length(view)):
        member = min(chance.sample(charges.members, 2), key=charges.fullness)
        order.append(member)
        charges.charge(member)
    return Plan(tuple(order))
