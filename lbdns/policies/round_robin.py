"""``round_robin``: strict rotation over the usable members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbdns.policies.plan import Handed, Plan, PoolView, rotation

if TYPE_CHECKING:
    from random import Random


def round_robin(view: PoolView, handed: Handed | None, chance: Random) -> Plan:
    """The plan of policy ``round_robin``: goes on where the previous plan stopped."""
    return rotation(view.candidates, handed)
