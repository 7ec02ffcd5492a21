"""How many members can be done without: never so many that the rest can't carry what comes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

MARGIN: Final = 1.05  # of the requests: beyond 95 % of what servers can carry, queues grow without an end


def spare(
    aside: Sequence[int], others: Sequence[int], floor: float, capacity: Sequence[float], demand: float
) -> list[int]:
    """Those of ``aside`` that the pool can do without; the first of them, who is least bad, is taken back first.

    ``others`` go on anyway; ``floor`` of all members have to. ``demand`` is the requests/s that come, 0 if nothing
    is known of ``capacity`` (requests/s, by member). With no others nobody can be spared: when all look bad, it is
    most likely the looking that failed.
    """
    if not others:
        return []
    count, carried = len(others), sum(capacity[i] for i in others)
    kept = list(aside)
    while kept and (count < floor or carried < MARGIN * demand):
        carried += capacity[kept.pop(0)]
        count += 1
    return kept


def demand(
    rates: Sequence[float | None],
    capacity: Sequence[float],
    serving: Sequence[int],
    failing: Sequence[int],
    mute: Collection[int] = (),
) -> float:
    """The requests/s that come, as those ``serving`` count them; 0 if none of them does.

    What ``failing`` members are sent nobody counts. It is taken to be in proportion to their capacity, or, of those who
    are ``mute``, as much as they counted before, if that is less: a rotation sends a strong member no more than others.
    """
    carried = sum(capacity[i] for i in serving)
    if carried <= 0:
        return 0.0
    counted = sum(rates[i] or 0.0 for i in serving)
    lost = 0.0
    for i in failing:
        by_capacity, before = counted * capacity[i] / carried, rates[i]
        lost += by_capacity if i not in mute or before is None else min(by_capacity, before)
    return counted + lost
