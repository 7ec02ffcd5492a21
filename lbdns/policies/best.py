"""``best``: the highest score while queries are few, level filling when they are many.

Level filling pours the requests that will come within a horizon over the members, so that all stand equally high
above where they should stand (``operating_point``): the emptiest first, and never more to one than lifts it to the
level of the rest. It does not herd, because what it hands out before the next report is already part of the sum.

Where an answer brings many requests (clients that keep it, resolvers that cache it), whoever got it stays, and leaves
unseen. Then small differences are left alone and large ones are corrected slowly: to correct each would move clients
about for ever, each move leaving a gap that the next report shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lbdns.policies.operating_point import operating_point
from lbdns.policies.plan import Handed, Plan, PoolView, highest_score
from lbdns.policies.spread import spread
from lbdns.policies.suspicion import trusted

if TYPE_CHECKING:
    from random import Random

HORIZON: Final = 1.5  # report intervals; below 1 the split swings, each report undoing the one before
FLOOR: Final = 1e-3  # of its capacity: who is better left empty takes part still when all others are full
STREAM: Final = 2.0  # requests an answer: below it is one client's page, above it is somebody who stays
PATIENCE: Final = 4.0  # times the horizon, for those who stay
INDIFFERENT: Final = 10.0  # requests: who stands so far from where it should is corrected by half of that


def best(view: PoolView, handed: Handed | None, chance: Random) -> Plan:
    """The plan of policy ``best``. While queries are few it begins with the hand-outs that are still few, all to
    the highest score, and goes on with level filling should more come before the next report.
    """
    few = highest_score(view, handed)
    many = spread(view, fill(view), handed)
    if view.answers_allowed <= 0 or not few.order:
        return many
    turns = -(-view.answers_allowed // len(few.order))
    first = (tuple(few.order) * turns)[: view.answers_allowed]
    return Plan(first + tuple(many.order), len(first), many.weights, many.credits)


def fill(view: PoolView) -> tuple[float, ...]:
    """Each member's share of the requests to come (sum 1)."""
    candidates = trusted(view)
    shares = [0.0] * len(view.members)
    if not candidates:
        return tuple(shares)
    members = [view.members[i] for i in candidates]
    vessels = capacities = [member.capacity * member.ramp for member in members]
    loads = [member.load for member in members]
    horizon = HORIZON * view.interval
    if view.measured and view.requests_per_s < math.inf:
        point = operating_point(capacities, [m.cores for m in members], view.requests_per_s, view.at_work)
        vessels = [max(rate, FLOOR * c) for rate, c in zip(point.rates, capacities, strict=True)]
        loads = [load - usual for load, usual in zip(loads, point.loads, strict=True)]
        requests = view.requests_per_s / view.answers_per_s if view.answers_per_s > 0 else 1.0
        if requests > STREAM:
            horizon *= min(requests, PATIENCE)
            loads = [load * abs(load) / (abs(load) + INDIFFERENT) for load in loads]
    expected = max(1.0, horizon * min(view.requests_per_s, view.answers_per_s))
    level = water_level(loads, vessels, expected)
    for i, load, vessel in zip(candidates, loads, vessels, strict=True):
        shares[i] = max(0.0, level * vessel - load) / expected
    return tuple(shares)


def water_level(loads: Sequence[float], capacities: Sequence[float], poured: float) -> float:
    """The level L (load per capacity) that solves ``sum(max(0, L * capacity - load)) = poured``.

    Capacities are above 0 and so is ``poured``; there is at least one member.
    """
    total_load = total_capacity = 0.0
    level = 0.0
    for emptiness, load, capacity in sorted(
        (load / capacity, load, capacity) for load, capacity in zip(loads, capacities, strict=True)
    ):
        if total_capacity and level <= emptiness:
            break
        total_load += load
        total_capacity += capacity
        level = (poured + total_load) / total_capacity
    return level
