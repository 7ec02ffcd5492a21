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
from lbdns.policies.level_filling import fill_to_level_steps
from lbdns.policies.member_columns import MemberColumns, gathered
from lbdns.policies.operating_point import SEARCH_LIMITS, operating_point_steps
from lbdns.policies.plan import Plan, PolicySpec, PoolView, Selections, rotation
from lbdns.policies.ranking import as_best
from lbdns.policies.steps import Steps, finish, parts
from lbdns.policies.weighted import MAX_LENGTH, MIN_LENGTH, carried_credits_steps, smooth_order_steps, smooth_plan_steps

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
    return finish(best_steps(view, previous, rng))


def best_steps(view: PoolView, previous: Selections | None, rng: Random) -> Steps[Plan]:
    """Return the same plan as ``best``, in steps."""
    shares = yield from level_filling_steps(view)
    if view.answers_allowed <= 0 or not view.candidates:
        return (yield from heavy_plan_steps(view, shares, previous))
    light = rotation(fastest(view, nearly_highest(view)), previous)
    yield
    heavy = yield from smooth_plan_steps(view, shares, previous)
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
    steps=best_steps,
)


def heavy_plan_steps(view: PoolView, shares: Sequence[float], previous: Selections | None) -> Steps[Plan]:
    """Return a plan that distributes the expected answers by ``shares``, and further answers in proportion to
    capacity."""
    expected = expected_answers(view)
    if not view.measured or expected > MAX_LENGTH:
        return (yield from smooth_plan_steps(view, shares, previous))
    credits = yield from carried_credits_steps(previous, len(shares))
    first = yield from smooth_order_steps(shares, credits, expected)
    members = view.on_time
    capacities = spread(gathered(view.columns.usable_capacities, members), members, len(shares))
    total = sum(capacities)
    yield
    length = min(MAX_LENGTH, max(MIN_LENGTH, 2 * len(members)))
    weights = [capacity / total for capacity in capacities]
    yield
    overflow = yield from smooth_order_steps(weights, [0.0] * len(shares), length)
    return Plan((*first, *overflow), expected, tuple(shares), credits)


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
    standstills: Mapping[int, float]  # by the same indexes

    @classmethod
    def of(cls, columns: MemberColumns, members: Sequence[int]) -> Filling:
        alarmed, loads = columns.alarmed, gathered(columns.loads, members)
        other_tasks = _kept(columns.other_tasks, members)
        for place, number in other_tasks.items():
            loads[place] = max(0.0, loads[place] - number)
        return cls(
            loads,
            gathered(columns.usable_capacities, members),
            gathered(columns.cores, members),
            frozenset(place for place, i in enumerate(members) if i in alarmed) if alarmed else frozenset(),
            other_tasks,
            _kept(columns.standstills, members),
        )

    def with_member(self, at: int, load: float, capacity: float) -> Filling:
        """Return a copy in which one member has another load and another usable capacity."""
        loads, capacities = list(self.loads), list(self.capacities)
        loads[at], capacities[at] = load, capacity
        return Filling(loads, capacities, self.cores, self.alarmed, self.other_tasks, self.standstills)


def _kept(values: Mapping[int, float], members: Sequence[int]) -> Mapping[int, float]:
    """Return the ``values`` of ``members``, by their places in ``members``."""
    return {place: values[i] for place, i in enumerate(members) if i in values} if values else NO_LIMITS


def level_filling_shares(view: PoolView) -> tuple[float, ...]:
    """Return each member's share of the expected requests. The shares add up to 1.

    A member's share is limited to ``view.max_speed_gain`` times the share that it would get if it were idle and had its
    proven capacity. The limit applies only if the capacity that other programs leave to the member exceeds its proven
    capacity.
    """
    return finish(level_filling_steps(view))


def level_filling_steps(view: PoolView) -> Steps[tuple[float, ...]]:
    """Return the same shares as ``level_filling_shares``, in steps."""
    columns, candidates = view.columns, view.on_time
    if not candidates:
        return (0.0,) * len(columns)
    filling = Filling.of(columns, candidates)
    yield
    found = yield from _filled(view, filling)
    yield
    for place in _unconfirmed(columns, candidates):
        proven = columns.proven_capacities[candidates[place]] * columns.ramps.get(candidates[place], 1.0)
        at_rest = yield from _filled(view, filling.with_member(place, 0.0, proven))
        most = view.max_speed_gain * at_rest[place]
        if found[place] > most:
            found = yield from _filled(view, filling, {place: most})
    yield
    shares = tuple(spread(found, candidates, len(columns)))
    yield
    return shares


def _unconfirmed(columns: MemberColumns, members: Sequence[int]) -> list[int]:
    """Return the places in ``members`` of those whose capacity exceeds what other members confirm."""
    shares, capacities, proven = columns.available_shares, columns.capacities, columns.proven_capacities
    unequal = compress(range(len(columns)), map(operator.gt, capacities, proven))
    exceeding = [i for i in unequal if capacities[i] * shares[i] > CONFIRMED * proven[i]]
    return [bisect_left(members, i) for i in exceeding if i in members] if exceeding else []


def _filled(view: PoolView, members: Filling, most: Mapping[int, float] = NO_LIMITS) -> Steps[list[float]]:
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
        filled = yield from fill_to_level_steps(loads, capacities, every, expected)
        return [one / expected for one in filled]
    # While a crowd arrives, more requests are in progress than on average
    in_progress = max(view.in_progress, sum(loads)) if view.crowd_arriving else view.in_progress
    corrected = HALF_CORRECTED if view.requests_per_answer > PERSISTENT else None
    if not NATIVE:
        return (yield from level_steps(members, requests, in_progress, limits, expected, corrected))
    filling = expected, MIN_SHARE, MIN_UTILISATION, corrected
    contention = list(members.other_tasks.items()), list(members.standstills.items())
    found = lbdns_native.level_filling(
        loads,
        capacities,
        members.cores,
        contention,
        requests,
        in_progress,
        list(limits.items()),
        SEARCH_LIMITS,
        filling,
    )
    yield
    return found


def level_steps(
    members: Filling,
    requests: float,
    in_progress: float,
    limits: Mapping[int, float],
    expected: float,
    half_corrected: float | None,
) -> Steps[list[float]]:
    """Return the shares of ``expected`` requests that bring ``members`` to the same level above their operating points.

    ``limits`` contains the requests that some members may get at most, by place. A deviation of ``half_corrected``
    requests is corrected by half; None corrects all deviations fully. The native extension returns the same shares.
    """
    capacities = members.capacities
    point = yield from operating_point_steps(
        capacities, members.cores, requests, in_progress, members.other_tasks, members.standstills
    )
    least = MIN_SHARE * max(requests / sum(capacities), MIN_UTILISATION)
    widths: list[float] = []
    loads: list[float] = []
    for part in parts(len(capacities)):
        widths += [
            floor if (floor := least * capacity) > rate else rate
            for rate, capacity in zip(point.rates[part], capacities[part], strict=True)
        ]
        gaps = [load - ideal for load, ideal in zip(members.loads[part], point.loads[part], strict=True)]
        if half_corrected is not None:
            gaps = [gap * abs(gap) / (abs(gap) + half_corrected) for gap in gaps]
        loads += gaps
        yield
    most = [math.inf] * len(loads)
    for place, limit in limits.items():
        most[place] = limit
    yield
    filled = yield from fill_to_level_steps(loads, widths, most, expected)
    yield
    return [one / expected for one in filled]


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
