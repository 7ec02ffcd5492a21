"""``best``: when traffic is light, selects the member with the highest score; when it is heavy, uses level filling.

Level filling distributes the requests expected within a certain time (the horizon) so that every member ends up at the
same level, that is, equally far above its ideal load (see ``operating_point``). Requests go to the members at the
lowest level first. Level filling does not cause herding, because requests that a plan assigns to a member immediately
raise the member's level.

One answer can bring many requests, because clients keep it or resolvers cache it. The DNS server then cannot tell how
long these clients will stay with the member. In that case, small differences in load are ignored and large differences
are corrected slowly. Correcting every difference would constantly move clients between members, and each move would
cause a new difference in the next report.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lbdns.policies.best_score import best_score
from lbdns.policies.operating_point import OperatingPoint, operating_point, parallel_requests
from lbdns.policies.plan import HIGHEST_SCORE, MemberView, Plan, PolicySpec, PoolView, Selections
from lbdns.policies.weighted import smooth_plan

if TYPE_CHECKING:
    from random import Random

HORIZON: Final = 1.5  # report intervals; below 1 the shares oscillate, because each report undoes the one before
MIN_SHARE: Final = 0.1  # of a member's share by capacity: without traffic its capacity stays unknown ...
MIN_UTILISATION: Final = 0.01  # ... and the pool's load counts as at least this part of its capacity
PERSISTENT: Final = 2.0  # requests per answer: fewer are one client's page, more are clients that keep the answer
MAX_PATIENCE: Final = 4.0  # horizons over which the load of persistent clients is corrected
MOST_FULL: Final = 4.0  # times as full as the others can become before the next report: no member counts as fuller
CONFIRMED: Final = 1.02  # times its proven capacity: up to it, a limit would cost more than it saves
NO_LIMITS: Final[Mapping[int, float]] = {}
HALF_CORRECTED: Final = 10.0  # requests: a deviation this large is corrected by half, a smaller one by less


def best(view: PoolView, previous: Selections | None, rng: Random) -> Plan:
    """Return a plan for policy ``best``.

    When traffic is light, the plan begins with ``view.answers_allowed`` selections of members with the highest score.
    Level filling follows, in case more answers are needed before the next report.
    """
    light = best_score(view, previous, rng)
    heavy = smooth_plan(view, level_filling_shares(view), previous)
    if view.answers_allowed <= 0 or not light.order:
        return heavy
    turns = -(-view.answers_allowed // len(light.order))
    first = (tuple(light.order) * turns)[: view.answers_allowed]
    return Plan(first + tuple(heavy.order), len(first), heavy.weights, heavy.credits)


BEST: Final = PolicySpec(
    "best",
    best,
    why="traffic is not light: requests are distributed so that the total response time is lowest",
    why_first=f"traffic is light: {HIGHEST_SCORE}",
    weighs_load=True,
    uses_score=True,
)


def level_filling_shares(view: PoolView) -> tuple[float, ...]:
    """Return each member's share of the expected requests. The shares add up to 1.

    A member gets at most ``view.max_speed_gain`` times what it would get if it were idle and had only its proven
    capacity.
    """
    candidates = view.on_time
    shares = [0.0] * len(view.members)
    if not candidates:
        return tuple(shares)
    members = [view.members[i] for i in candidates]
    found = _filled(view, members)
    for i, member in enumerate(members):
        if member.capacity > CONFIRMED * member.proven_capacity:
            proven = replace(member, load=0.0, capacity=member.proven_capacity)
            most = view.max_speed_gain * _filled(view, [*members[:i], proven, *members[i + 1 :]])[i]
            if found[i] > most:
                found = _filled(view, members, {i: most})
    for i, part in zip(candidates, found, strict=True):
        shares[i] = part
    return tuple(shares)


def _filled(view: PoolView, members: Sequence[MemberView], most: Mapping[int, float] = NO_LIMITS) -> list[float]:
    """Return the shares that bring ``members`` to the same level. ``most`` holds the greatest share of some members."""
    widths = capacities = [member.capacity * member.available_share * member.ramp for member in members]
    requests, answers = expected_rates(view)
    horizon = HORIZON * view.interval
    loads = limited_loads([member.load for member in members], capacities, max(1.0, horizon * min(requests, answers)))
    if view.measured and requests < math.inf:
        cores = [member.cores for member in members]
        # While a crowd arrives, more requests are in progress than on average
        in_progress = max(view.in_progress, sum(loads)) if view.crowd_arriving else view.in_progress
        point = operating_point(capacities, cores, requests, in_progress)
        least = MIN_SHARE * max(requests / sum(capacities), MIN_UTILISATION)
        widths = [max(rate, least * capacity) for rate, capacity in zip(point.rates, capacities, strict=True)]
        if view.requests_per_answer > PERSISTENT:
            horizon *= min(view.requests_per_answer, MAX_PATIENCE)
            deviations = [load - ideal for load, ideal in zip(loads, point.loads, strict=True)]
            loads = [load * abs(load) / (abs(load) + HALF_CORRECTED) for load in deviations]
        else:
            ideals = with_backlog(point, loads, capacities, cores)
            loads = [load - ideal for load, ideal in zip(loads, ideals, strict=True)]
    expected = max(1.0, horizon * min(requests, answers))
    # A member whose queue is nearly full gets no more than it can serve
    limits = [
        min(most.get(i, math.inf) * expected, horizon * c if member.alarmed else math.inf)
        for i, (member, c) in enumerate(zip(members, capacities, strict=True))
    ]
    return [part / expected for part in fill_to_level(loads, widths, limits, expected)]


def limited_loads(loads: Sequence[float], capacities: Sequence[float], amount: float) -> list[float]:
    """Return ``loads``, each at most ``MOST_FULL`` times as full as all others together after ``amount`` more requests.

    Such a member gets no requests anyway. A false load beyond that would only change how the others share theirs,
    because it would count as a backlog beside which their own loads mean nothing.
    """
    load, capacity = sum(loads), sum(capacities)
    return [
        min(n, MOST_FULL * c * (load - n + amount) / (capacity - c)) if capacity > c else n
        for n, c in zip(loads, capacities, strict=True)
    ]


def fill_to_level(
    loads: Sequence[float], widths: Sequence[float], limits: Sequence[float], amount: float
) -> list[float]:
    """Split ``amount`` into parts that bring all members, within ``limits``, to the same level (load per width).

    If ``amount`` exceeds the sum of the limits, all parts exceed their limits by the same factor. ``widths`` and
    ``limits`` are above 0.
    """
    parts = [0.0] * len(loads)
    unlimited, rest = list(range(len(loads))), amount
    while unlimited and rest > 0:
        level = water_level([loads[i] for i in unlimited], [widths[i] for i in unlimited], rest)
        full = [i for i in unlimited if level * widths[i] - loads[i] >= limits[i]]
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
    """Return the currently expected requests/s and answers/s.

    When a crowd of clients arrives, answers increase at once, completed requests only later, and the averages only
    after some seconds. Each answer to the crowd is assumed to bring the usual number of requests, but at least one. If
    the crowd looks up names but sends no requests, the only effect is that traffic is split by capacity for a while.
    """
    if not view.crowd_arriving:
        return view.requests_per_s, view.answers_per_s
    if view.requests_per_answer > PERSISTENT:
        return view.requests_per_answer * view.recent_answers_per_s, view.recent_answers_per_s
    return max(view.requests_per_s, view.recent_answers_per_s), view.recent_answers_per_s


def with_backlog(
    point: OperatingPoint, loads: Sequence[float], capacities: Sequence[float], cores: Sequence[float]
) -> tuple[float, ...]:
    """Return each member's ideal load: its load at ``point``, plus its part of the backlog.

    The backlog, all other requests in progress, is split so that it is cleared as soon as possible. Members that are
    busy even without a backlog take parts in proportion to their capacity. A member that should stay idle takes a part
    only if requests would wait longer for another member than the idle member takes to serve them.
    """
    backlog = sum(loads) - sum(point.loads)
    if backlog <= 0:
        return point.loads
    # How much more one request costs at an empty member than elsewhere, expressed as a load that it already has
    heads = [
        max(0.0, parallel_requests(m) - point.cost * capacity) for capacity, m in zip(capacities, cores, strict=True)
    ]
    level = water_level(heads, capacities, backlog)
    return tuple(
        ideal + max(0.0, level * capacity - head)
        for ideal, capacity, head in zip(point.loads, capacities, heads, strict=True)
    )


def water_level(loads: Sequence[float], widths: Sequence[float], amount: float) -> float:
    """Return the level L (load per width) that solves ``sum(max(0, L * width - load)) = amount``.

    ``widths`` and ``amount`` are above 0; there is at least one member.
    """
    total_load = total_width = 0.0
    level = 0.0
    for own_level, load, width in sorted(
        (load / width, load, width) for load, width in zip(loads, widths, strict=True)
    ):
        if total_width and level <= own_level:
            break
        total_load += load
        total_width += width
        level = (amount + total_load) / total_width
    return level
