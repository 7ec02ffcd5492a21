"""``round_robin``: strict rotation over the usable members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lbdns.policies.plan import Plan, PolicySpec, PoolView, Selections, rotation

if TYPE_CHECKING:
    from random import Random


def round_robin(view: PoolView, previous: Selections | None, rng: Random) -> Plan:
    """Return a plan for policy ``round_robin``, which continues where the previous plan stopped."""
    return rotation(view.candidates, previous)


ROUND_ROBIN: Final = PolicySpec("round_robin", round_robin, why="strict rotation")
