"""Spare capacity: determines which members a pool does not need, because the other members can meet the demand.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lbdns.policies.level_filling import water_level

MARGIN: Final = 1.05  # times the demand: above 95 % of what servers can carry, queues grow without limit
#: Times the demand, while members in alarm are left out. They still serve requests, and hosts are slow before they are
#: full: with less, queues grow until the members in alarm are needed, and those come and go with every report
ALARM_MARGIN: Final = 1.3


def spare(
    suspended: Sequence[int],
    others: Sequence[int],
    minimum: float,
    capacity: Sequence[float],
    demand: float,
    margin: float = MARGIN,
) -> list[int]:
    """Return the members in ``suspended`` that the pool does not need.

    ``suspended`` is sorted from the best member to the worst; if the pool needs more members, the best are used first.
    The members in ``others`` stay in use; at least ``minimum`` members in total must stay in use. ``demand`` and
    ``capacity`` are in requests/s; ``demand`` is 0 if unknown. The members in use must be able to serve ``margin``
    times the demand. If ``others`` is empty, no member can be spared: if all members look bad, monitoring has probably
    failed.
    """
    if not others:
        return []
    count, carried = len(others), sum(capacity[i] for i in others)
    kept = list(suspended)
    while kept and (count < minimum or carried < margin * demand):
        carried += capacity[kept.pop(0)]
        count += 1
    return kept


def needed_despite_alarm(
    alarmed: Sequence[int],
    others: Sequence[int],
    load: Sequence[float],
    capacity: Sequence[float],
    demand: float,
    horizon: float,
) -> list[int]:
    """Return the members of ``alarmed`` that the pool needs, in addition to ``others``, to serve ``demand`` requests/s.

    If the other members can serve ``ALARM_MARGIN`` times all waiting and new requests within ``horizon`` seconds, the
    pool needs none of the alarmed members. Otherwise, the function predicts the ratio of load to capacity that the
    other members will reach. If an alarmed member's own ratio is higher, the pool does not need this member: it serves
    its own queue in the meantime, so no capacity is lost. ``load`` is in requests.

    If the current ratio of a member in ``others`` already exceeds that common ratio, the member is ignored. By
    reporting a high load, a member therefore excludes only itself; it cannot make the pool seem to need the alarmed
    members.
    """
    level = water_level([load[i] for i in others], [capacity[i] for i in others], horizon * demand)
    available = [i for i in others if load[i] <= level * capacity[i]] or others
    waiting = sum(load[i] for i in available)
    missed = sorted((i for i in alarmed if load[i] < level * capacity[i]), key=lambda i: load[i] / capacity[i])
    spared = spare(missed, available, 1.0, capacity, demand + waiting / horizon, ALARM_MARGIN)
    return [i for i in missed if i not in spared]


def raised_ramps(
    ramps: Mapping[int, float], members: Sequence[int], capacity: Sequence[float], demand: float, margin: float = MARGIN
) -> dict[int, float]:
    """Return the slow-start fractions ``ramps``, each raised to a common minimum if it is lower.

    The minimum is the fraction at which ``members`` can meet ``margin`` times the ``demand``, but at most 1.
    """
    rest = sum(capacity[i] for i in members if i not in ramps)
    starting = sum(capacity[i] for i in members if i in ramps)
    least = min(1.0, (margin * demand - rest) / starting) if starting > 0 else 0.0
    return {i: max(least, ramp) for i, ramp in ramps.items()}


def total_demand(
    rates: Sequence[float | None],
    selected: Sequence[float],
    capacity: Sequence[float],
    serving: Sequence[int],
    failing: Sequence[int],
) -> float:
    """Return the requests/s that clients send, based on the rates of the ``serving`` members, or 0 if none are serving.

    Reports do not include requests sent to ``failing`` members. These requests are estimated from each member's recent
    selections (``selected``, in any unit). Estimates from capacity would be wrong, because a rotation sends strong and
    weak members the same number of requests. If there are no recent selections, requests are assumed to be distributed
    in proportion to capacity.
    """
    unit = selected if sum(selected[i] for i in serving) > 0 else capacity
    total = sum(unit[i] for i in serving)
    counted = sum(rates[i] or 0.0 for i in serving)
    return counted * (1 + sum(unit[i] for i in failing) / total) if total > 0 else 0.0
