"""``best``: selects by score and speed when traffic is light (``highest_scores``), and by level filling otherwise.

Level filling distributes the requests expected within a certain time (the horizon) so that all members reach the same
level. A member's level measures how far its load exceeds its ideal load (see ``operating_point``). Requests go to the
members at the lowest level first. Level filling does not cause herding, because requests that a plan assigns to a
member immediately raise the member's level.

One answer can bring many requests, because clients and resolvers cache the answer. The DNS server cannot determine how
long these clients will stay with the member. If an answer brings more than two requests on average, level filling
hardly corrects small differences in load. Correcting every difference would constantly move clients between members,
and each move would cause a new difference in the next report.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Final

from lbdns.native_extension import AVAILABLE, provides
from lbdns.policies.highest_scores import fastest, nearly_highest, why_fastest
from lbdns.policies.member_columns import MemberColumns, gathered
from lbdns.policies.operating_point import SEARCH_LIMITS, operating_point
from lbdns.policies.plan import Plan, PolicySpec, PoolView, Selections, rotation
from lbdns.policies.ranking import as_best
from lbdns.policies.weighted import MAX_LENGTH, MIN_LENGTH, carried_credits, smooth_order, smooth_plan

if AVAILABLE:
    import lbdns_native

if TYPE_CHECKING:
    from random import Random

NATIVE: Final = provides("level_filling")
HORIZON: Final = 1.5  # report intervals; below 1 the shares oscillate, because each report undoes the one before
MIN_SHARE: Final = 0.1  # of a member's share by capacity: without traffic its capacity stays unknown ...
MIN_UTILISATION: Final = 0.01  # ... and the pool's load counts as at least this part of its capacity
PERSISTENT: Final = 2.0  # requests per answer: fewer are one client's page, more are clients that keep the answer
CONFIRMED: Final = 1.02  # times its proven capacity: up to it, a limit would cost more than it saves
NO_LIMITS: Final[Mapping[int, float]] = {}
PLAN_REPORTS: Final = 2.0  # times the mean time between two reports: plans seldom last longer ...
MIN_PLAN: Final = 0.1  # ... and, in large pools, than this many seconds
UNLIKELY: Final = 4.0  # standard deviations of a count of answers
HALF_CORRECTED: Final = 60.0  # requests: a deviation this large is corrected by half, a smaller one by less


def best(view: PoolView, previous: Selections | None, rng: Random) -> Plan:
    """Return a plan for policy ``best``.

    When traffic is light, the plan begins with ``view.answers_allowed`` selections of the fastest members with nearly
    the highest score. After these, members are selected by level filling, in case more answers are needed before the
    next report.

    When traffic is not light, level filling makes the plan's first selections, one for each answer expected before the
    next report. After these, members are selected in proportion to capacity, because a crowd of clients may just have
    arrived, and the loads in the reports would not reflect it yet.
    """
    shares = level_filling_shares(view)
    if view.answers_allowed <= 0 or not view.candidates:
        return heavy_plan(view, shares, previous)
    light = rotation(fastest(view, nearly_highest(view)), previous)
    heavy = smooth_plan(view, shares, previous)
    turns = -(-view.answers_allowed // len(light.order))
    first = (tuple(light.order) * turns)[: view.answers_allowed]
    return Plan(first + tuple(heavy.order), len(first), heavy.weights, heavy.credits, light=True)


BEST: Final = PolicySpec(
    "best",
    best,
    why="traffic is not light: requests are distributed so that the total response time is lowest",
    why_light=lambda view: f"traffic is light: {why_fastest(view)}",
    why_overflow="more queries than expected have arrived since the last report: members are selected by capacity",
    weighs_load=True,
    uses_score=True,
    rank=as_best,
)


def heavy_plan(view: PoolView, shares: Sequence[float], previous: Selections | None) -> Plan:
    """Return a plan that distributes the expected answers by ``shares``, and further answers in proportion to
    capacity."""
    expected = expected_answers(view)
    if not view.measured or expected > MAX_LENGTH:
        return smooth_plan(view, shares, previous)
    credits = carried_credits(previous, len(shares))
    members = view.on_time
    capacities = spread(gathered(view.columns.usable_capacities, members), members, len(shares))
    total = sum(capacities)
    length = min(MAX_LENGTH, max(MIN_LENGTH, 2 * len(members)))
    overflow = smooth_order([capacity / total for capacity in capacities], [0.0] * len(shares), length)
    return Plan((*smooth_order(shares, credits, expected), *overflow), expected, tuple(shares), credits)


def expected_answers(view: PoolView) -> int:
    """Return an upper bound on the number of answers until the next plan, assuming that no crowd of clients arrives."""
    # Every report leads to a new plan; the reports of few members may be close together
    until_next_plan = min(view.interval, max(MIN_PLAN, PLAN_REPORTS * view.interval / len(view.members)))
    expected = until_next_plan * view.recent_answers_per_s / view.multiplier
    return math.ceil(expected + UNLIKELY * math.sqrt(expected) + UNLIKELY)


def spread(values: Sequence[float], members: Sequence[int], size: int) -> list[float]:
    """Return a column of ``size`` items, which contains the ``values`` of ``members``, and 0 for all others."""
    if len(members) == size:
        return list(values)
    column = [0.0] * size
    for i, value in zip(members, values, strict=True):
        column[i] = value
    return column


@dataclass(frozen=True, slots=True)
class Filling:
    """The members that level filling considers, by column."""

    loads: Sequence[float]  # without other programs' tasks
    capacities: Sequence[float]  # usable, in requests/s
    cores: Sequence[float]
    alarmed: frozenset[int]  # indexes in the other columns
    other_tasks: Mapping[int, float]  # by the same indexes

    @classmethod
    def of(cls, columns: MemberColumns, members: Sequence[int]) -> Filling:
        alarmed, loads, tasks = columns.alarmed, gathered(columns.loads, members), columns.other_tasks
        other_tasks = {place: tasks[i] for place, i in enumerate(members) if i in tasks} if tasks else NO_LIMITS
        for place, number in other_tasks.items():
            loads[place] = max(0.0, loads[place] - number)
        return cls(
            loads,
            gathered(columns.usable_capacities, members),
            gathered(columns.cores, members),
            frozenset(place for place, i in enumerate(members) if i in alarmed) if alarmed else frozenset(),
            other_tasks,
        )

    def with_member(self, at: int, load: float, capacity: float) -> Filling:
        """Return a copy in which one member has another load and another usable capacity."""
        loads, capacities = list(self.loads), list(self.capacities)
        loads[at], capacities[at] = load, capacity
        return Filling(loads, capacities, self.cores, self.alarmed, self.other_tasks)


def level_filling_shares(view: PoolView) -> tuple[float, ...]:
    """Return each member's share of the expected requests. The shares add up to 1.

    A member's share is limited to ``view.max_speed_gain`` times the share that it would get if it were idle and had its
    proven capacity. The limit applies only if the capacity that other programs leave to the member exceeds its proven
    capacity.
    """
    columns, candidates = view.columns, view.on_time
    if not candidates:
        return (0.0,) * len(columns)
    filling = Filling.of(columns, candidates)
    found = _filled(view, filling)
    for place in _unconfirmed(columns, candidates):
        proven = columns.proven_capacities[candidates[place]] * columns.ramps.get(candidates[place], 1.0)
        most = view.max_speed_gain * _filled(view, filling.with_member(place, 0.0, proven))[place]
        if found[place] > most:
            found = _filled(view, filling, {place: most})
    return tuple(spread(found, candidates, len(columns)))


def _unconfirmed(columns: MemberColumns, members: Sequence[int]) -> list[int]:
    """Return the places in ``members`` of those whose capacity exceeds what other members confirm."""
    shares, capacities, proven = columns.available_shares, columns.capacities, columns.proven_capacities
    unequal = compress(range(len(columns)), map(operator.gt, capacities, proven))
    exceeding = [i for i in unequal if capacities[i] * shares[i] > CONFIRMED * proven[i]]
    return [bisect_left(members, i) for i in exceeding if i in members] if exceeding else []


def _filled(view: PoolView, members: Filling, most: Mapping[int, float] = NO_LIMITS) -> list[float]:
    """Return the shares that bring ``members`` to the same level; ``most`` limits the shares of some members."""
    capacities, loads = members.capacities, members.loads
    requests, answers = expected_rates(view)
    horizon = HORIZON * view.interval
    expected = max(1.0, horizon * min(requests, answers))
    limits = {place: limit * expected for place, limit in most.items()}
    # A member whose queue is nearly full gets no more than it can serve
    for place in members.alarmed:
        limits[place] = min(limits.get(place, math.inf), horizon * capacities[place])
    if not view.measured or requests == math.inf:
        every = [limits.get(place, math.inf) for place in range(len(loads))] if limits else [math.inf] * len(loads)
        return [part / expected for part in fill_to_level(loads, capacities, every, expected)]
    # While a crowd arrives, more requests are in progress than on average
    in_progress = max(view.in_progress, sum(loads)) if view.crowd_arriving else view.in_progress
    corrected = HALF_CORRECTED if view.requests_per_answer > PERSISTENT else None
    if not NATIVE:
        return python_level_filling(members, requests, in_progress, limits, expected, corrected)
    filling = expected, MIN_SHARE, MIN_UTILISATION, corrected
    tasks = list(members.other_tasks.items())
    return lbdns_native.level_filling(
        loads, capacities, members.cores, tasks, requests, in_progress, list(limits.items()), SEARCH_LIMITS, filling
    )


def python_level_filling(
    members: Filling,
    requests: float,
    in_progress: float,
    limits: Mapping[int, float],
    expected: float,
    half_corrected: float | None,
) -> list[float]:
    """Return the shares of ``expected`` requests that bring ``members`` to the same level above their operating points.

    ``limits`` contains the requests that some members may get at most, by place. A deviation of ``half_corrected``
    requests is corrected by half; None corrects all deviations fully. The native extension returns the same shares.
    """
    capacities = members.capacities
    point = operating_point(capacities, members.cores, requests, in_progress, members.other_tasks)
    least = MIN_SHARE * max(requests / sum(capacities), MIN_UTILISATION)
    widths = [
        floor if (floor := least * capacity) > rate else rate
        for rate, capacity in zip(point.rates, capacities, strict=True)
    ]
    loads = [load - ideal for load, ideal in zip(members.loads, point.loads, strict=True)]
    if half_corrected is not None:
        loads = [load * abs(load) / (abs(load) + half_corrected) for load in loads]
    most = [math.inf] * len(loads)
    for place, limit in limits.items():
        most[place] = limit
    return [part / expected for part in fill_to_level(loads, widths, most, expected)]


def fill_to_level(
    loads: Sequence[float], widths: Sequence[float], limits: Sequence[float], amount: float
) -> list[float]:
    """Split ``amount`` into parts, each within its limit, that bring all members to the same level (load per width).

    If ``amount`` exceeds the sum of the limits, all parts exceed their limits by the same factor. All ``widths`` and
    ``limits`` are positive.
    """
    if not AVAILABLE:
        return python_fill_to_level(loads, widths, limits, amount)
    return lbdns_native.fill_to_level(loads, widths, limits, amount)


def python_fill_to_level(
    loads: Sequence[float], widths: Sequence[float], limits: Sequence[float], amount: float
) -> list[float]:
    """Return the same parts as ``fill_to_level``, without the native extension."""
    parts = [0.0] * len(loads)
    unlimited, rest = list(range(len(loads))), amount
    while unlimited and rest > 0:
        level = water_level([loads[i] for i in unlimited], [widths[i] for i in unlimited], rest)
        full = {i for i in unlimited if level * widths[i] - loads[i] >= limits[i]}
        if not full:
            for i in unlimited:
                parts[i] = max(0.0, level * widths[i] - loads[i])
            return parts
        for i in full:
            parts[i] = limits[i]
        rest = amount - sum(parts)
        unlimited = [i for i in unlimited if i not in full]
    total = sum(parts)
    return [part * amount / total for part in parts]


def expected_rates(view: PoolView) -> tuple[float, float]:
    """Return two values: the requests/s and the answers/s that are currently expected.

    When a crowd of clients arrives, the number of answers increases immediately, but the number of completed requests
    and the average rates increase only some seconds later. Each answer to the crowd is assumed to lead to the usual
    number of requests, and to at least one. If the crowd looks up names but sends no requests, the only effect is that
    traffic is split by capacity for a while.
    """
    if not view.crowd_arriving:
        return view.requests_per_s, view.answers_per_s
    if view.requests_per_answer > PERSISTENT:
        return view.requests_per_answer * view.recent_answers_per_s, view.recent_answers_per_s
    return max(view.requests_per_s, view.recent_answers_per_s), view.recent_answers_per_s


def water_level(loads: Sequence[float], widths: Sequence[float], amount: float) -> float:
    """Return the level L (load per width) that solves ``sum(max(0, L * width - load)) = amount``.

    ``amount`` and all ``widths`` are positive; there is at least one member.
    """
    members = [(load / width, load, width) for load, width in zip(loads, widths, strict=True)]
    level = 0.0
    while members:
        # Without the members above the level, it falls: none of them can belong to the result
        level = (amount + sum([load for _, load, _ in members])) / sum([width for _, _, width in members])
        below = [member for member in members if member[0] < level]
        if len(below) == len(members):
            break
        members = below
    return level
