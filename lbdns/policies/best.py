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

from lbdns.policies.operating_point import OperatingPoint, lanes, operating_point
from lbdns.policies.plan import Handed, Plan, PoolView, highest_score
from lbdns.policies.spread import spread
from lbdns.policies.suspicion import trusted

if TYPE_CHECKING:
    from random import Random

HORIZON: Final = 1.5  # report intervals; below 1 the split swings, each report undoing the one before
FLOOR: Final = 0.1  # of its share by capacity: nobody knows what a member can carry that gets nothing at all ...
IDLE: Final = 0.01  # ... and this part of all capacity counts as asked for at least
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
    vessels = capacities = [member.capacity * member.left * member.ramp for member in members]
    loads = [member.load for member in members]
    requests, answers = coming(view)
    horizon = HORIZON * view.interval
    if view.measured and requests < math.inf:
        cores = [member.cores for member in members]
        # Of a crowd that has just come more are at work than on the average
        present = max(view.at_work, sum(loads)) if view.crowd_comes else view.at_work
        point = operating_point(capacities, cores, requests, present)
        least = FLOOR * max(requests / sum(capacities), IDLE)
        vessels = [max(rate, least * capacity) for rate, capacity in zip(point.rates, capacities, strict=True)]
        if view.requests_per_answer > STREAM:
            horizon *= min(view.requests_per_answer, PATIENCE)
            apart = [load - usual for load, usual in zip(loads, point.loads, strict=True)]
            loads = [load * abs(load) / (abs(load) + INDIFFERENT) for load in apart]
        else:
            usual = with_backlog(point, loads, capacities, cores)
            loads = [load - where for load, where in zip(loads, usual, strict=True)]
    expected = max(1.0, horizon * min(requests, answers))
    # Whose queue is near its end works off as much as it gets
    most = [horizon * c if member.refusing else math.inf for member, c in zip(members, capacities, strict=True)]
    for i, part in zip(candidates, pour(loads, vessels, most, expected), strict=True):
        shares[i] = part / expected
    return tuple(shares)


def pour(loads: Sequence[float], vessels: Sequence[float], most: Sequence[float], poured: float) -> list[float]:
    """How much of ``poured`` each gets, so that all stand equally high, but none more than ``most``; unless that is all
    that there is room for: then each as much more as the others, in proportion. ``most`` are above 0."""
    parts = [0.0] * len(loads)
    open_, left = list(range(len(loads))), poured
    while open_ and left > 0:
        level = water_level([loads[i] for i in open_], [vessels[i] for i in open_], left)
        full = [i for i in open_ if level * vessels[i] - loads[i] >= most[i]]
        if not full:
            for i in open_:
                parts[i] = max(0.0, level * vessels[i] - loads[i])
            return parts
        for i in full:
            parts[i] = most[i]
        left = poured - sum(parts)
        open_ = [i for i in open_ if i not in full]
    whole = sum(parts)
    return [part * poured / whole for part in parts]


def coming(view: PoolView) -> tuple[float, float]:
    """How many requests and answers a second come just now.

    A crowd is in the answers at once, in the requests not before they are done, and in the averages after seconds.
    Each of its answers brings what answers bring, one request at least: should it be somebody who only looks up,
    members get by capacity for a while, which harms nobody.
    """
    if not view.crowd_comes:
        return view.requests_per_s, view.answers_per_s
    if view.requests_per_answer > STREAM:
        return view.requests_per_answer * view.answers_now, view.answers_now
    return max(view.requests_per_s, view.answers_now), view.answers_now


def with_backlog(
    point: OperatingPoint, loads: Sequence[float], capacities: Sequence[float], cores: Sequence[float]
) -> tuple[float, ...]:
    """How many requests each member should have at work, when together they have more than ``point`` accounts for.

    What is too much is shared so that it is worked off soonest: members that serve anyway carry it in proportion to
    their capacity, and one that was to stay empty joins in as soon as waiting for them takes longer than its own
    service does.
    """
    backlog = sum(loads) - sum(point.loads)
    if backlog <= 0:
        return point.loads
    # What a request takes at an empty member beyond what one more costs elsewhere, as load that it has already
    heads = [max(0.0, lanes(m) - point.cost * capacity) for capacity, m in zip(capacities, cores, strict=True)]
    level = water_level(heads, capacities, backlog)
    return tuple(
        usual + max(0.0, level * capacity - head)
        for usual, capacity, head in zip(point.loads, capacities, heads, strict=True)
    )


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
