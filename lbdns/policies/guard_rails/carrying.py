"""How many members can be done without: never so many that the rest can't carry what comes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def needed(
    refusing: Sequence[int],
    others: Sequence[int],
    load: Sequence[float],
    capacity: Sequence[float],
    demand: float,
    horizon: float,
) -> list[int]:
    """Those of ``refusing``, who give an alarm, that ``others`` can't do without: ``demand`` requests/s come.

    The others can if within ``horizon`` seconds they are done with what waits and what comes. If they can't, who has
    more to do than they will have, for its capacity, is spared all the same: it works its queue off meanwhile, and
    nothing is lost. (``load`` is in requests.)
    """
    waiting = sum(load[i] for i in others)
    level = (waiting + horizon * demand) / sum(capacity[i] for i in others)
    missed = sorted((i for i in refusing if load[i] < level * capacity[i]), key=lambda i: load[i] / capacity[i])
    spared = spare(missed, others, 1.0, capacity, demand + waiting / horizon)
    return [i for i in missed if i not in spared]


def carried_ramps(
    ramps: Mapping[int, float], members: Sequence[int], capacity: Sequence[float], demand: float
) -> dict[int, float]:
    """``ramps``, what part of its share a member gets, raised alike until ``members`` together carry ``demand``."""
    rest = sum(capacity[i] for i in members if i not in ramps)
    ramped = sum(capacity[i] for i in members if i in ramps)
    least = min(1.0, (MARGIN * demand - rest) / ramped) if ramped > 0 else 0.0
    return {i: max(least, ramp) for i, ramp in ramps.items()}


def demand(
    rates: Sequence[float | None],
    handed: Sequence[float],
    capacity: Sequence[float],
    serving: Sequence[int],
    failing: Sequence[int],
) -> float:
    """The requests/s that come, as those ``serving`` count them; 0 if none of them does.

    What ``failing`` members are sent nobody counts. It is in proportion to how often each was ``handed`` out lately (in
    any measure): a rotation sends a strong member no more than others. While nothing is handed out that tells, it is
    taken to be in proportion to their capacity.
    """
    measure = handed if sum(handed[i] for i in serving) > 0 else capacity
    by = sum(measure[i] for i in serving)
    counted = sum(rates[i] or 0.0 for i in serving)
    return counted * (1 + sum(measure[i] for i in failing) / by) if by > 0 else 0.0
