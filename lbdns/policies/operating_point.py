"""The operating point: the request rate at each member for which the total response time is lowest.

At utilisation ``p``, a member with ``m`` cores takes about ``1 / (a * (1 - p ** m))`` seconds per request if one core
can serve ``a`` requests/s. The formula describes an M/M/m queue; it is exact for one and two cores, and accurate to a
few percent for more cores. The distribution of request sizes hardly matters, because the cores share the work. The
total response time is lowest if the cost of one more request/s is equal at all members. For a given marginal cost, the
rate of each member has a closed form, so the marginal cost is the only unknown.

At the operating point, slow cores stay idle while fast cores have spare capacity, and large members run at a higher
utilisation than small members. Distributing requests in proportion to capacity is optimal only under high load; under
low load, such a distribution increases the response time.

Beside ``k`` runnable tasks of other programs, a request takes ``max(m, k + 1) / (m * a * (1 - p ** q))`` seconds, where
``q`` is ``m - k``, but at least 1. If the tasks occupy all cores but one, or all, the formula is exact (processor
sharing with permanent customers). If the host stands still part of the time, each request takes an additional time that
does not depend on the rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.native_extension import AVAILABLE
from lbdns.policies.steps import SMALL, STEP, Steps, finish, parts

if AVAILABLE:
    import lbdns_native

MAX_UTILISATION: Final = 0.98  # above this utilisation the shares hardly change, but the search takes longer
_ACCURACY: Final = 1e-3  # relative to the wanted rate or load
_STEPS: Final = 60  # of the search, at most
_NARROWEST: Final = 1e-12  # relative to the bounds: between closer ones, rounding errors decide
_SAMPLE: Final = 256  # members: in a pool of at least four times as many, a sample is searched first
_STRIDE: Final = 7919  # between two members of a sample: a prime, so that a pattern in the pool does not matter
_AT_ONCE: Final = 1500  # members in a step of the search: less than a millisecond of work
_CONTENDED_AT_ONCE: Final = 400  # members on whose hosts other programs run, in a step that prepares the search
_AROUND: Final = (0.97, 1.03)  # times its share of the rate: a sample brings the cost to the bounds for the pool
#: For the native extension
SEARCH_LIMITS: Final = (MAX_UTILISATION, _ACCURACY, _STEPS, _NARROWEST, _SAMPLE, _STRIDE, _AROUND)
NO_TASKS: Final[Mapping[int, float]] = {}

#: An item of each member for ``_split``
_Servers = Sequence[tuple[float, float, float, float, float]]


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """Each member's ideal requests/s (``rates``), and the resulting number of its requests in progress (``loads``)."""

    rates: tuple[float, ...]
    loads: tuple[float, ...]


def operating_point(
    capacities: Sequence[float],
    cores: Sequence[float],
    rate: float,
    in_progress: float = math.inf,
    other_tasks: Mapping[int, float] = NO_TASKS,
    standstills: Mapping[int, float] = NO_TASKS,
) -> OperatingPoint:
    """Return the best split of ``rate`` requests/s across members that can serve ``capacities`` (requests/s, above 0).

    ``cores`` may contain fractions, because CPU quotas can be fractional; a fraction below one counts as one core. If
    ``rate`` exceeds the total capacity, it is split in the same proportions as the highest rate that the pool can
    serve. ``in_progress`` is the maximum number of requests in progress in the whole pool. There is such a maximum if
    each client waits for a response before its next request. ``other_tasks`` contains the runnable tasks of other
    programs on the hosts of some members, by place, and ``standstills`` the seconds for which a request waits at some
    members because the host stands still.
    """
    if not AVAILABLE:
        return python_operating_point(capacities, cores, rate, in_progress, other_tasks, standstills)
    contention = list(other_tasks.items()), list(standstills.items())
    rates, loads = lbdns_native.operating_point(capacities, cores, contention, rate, in_progress, SEARCH_LIMITS)
    return OperatingPoint(tuple(rates), tuple(loads))


def operating_point_steps(
    capacities: Sequence[float],
    cores: Sequence[float],
    rate: float,
    in_progress: float = math.inf,
    other_tasks: Mapping[int, float] = NO_TASKS,
    standstills: Mapping[int, float] = NO_TASKS,
) -> Steps[OperatingPoint]:
    """Return the same numbers as ``operating_point``, in steps without the native extension."""
    if AVAILABLE:
        return operating_point(capacities, cores, rate, in_progress, other_tasks, standstills)
    return (yield from _python_steps(capacities, cores, rate, in_progress, other_tasks, standstills))


def python_operating_point(
    capacities: Sequence[float],
    cores: Sequence[float],
    rate: float,
    in_progress: float = math.inf,
    other_tasks: Mapping[int, float] = NO_TASKS,
    standstills: Mapping[int, float] = NO_TASKS,
) -> OperatingPoint:
    """Return the same numbers as ``operating_point``, without the native extension."""
    return finish(_python_steps(capacities, cores, rate, in_progress, other_tasks, standstills))


def _python_steps(
    capacities: Sequence[float],
    cores: Sequence[float],
    rate: float,
    in_progress: float,
    other_tasks: Mapping[int, float],
    standstills: Mapping[int, float],
) -> Steps[OperatingPoint]:
    servers = yield from _servers(capacities, cores, other_tasks, standstills)
    wanted, in_progress = min(rate, MAX_UTILISATION * sum(capacities)), max(1.0, in_progress)
    if wanted <= 0:
        return OperatingPoint((0.0,) * len(servers), (0.0,) * len(servers))
    guesses = yield from _guesses(servers, capacities, wanted, in_progress)
    below, above, _ = yield from _search(servers, wanted, in_progress, guesses)
    yield
    # A member with many slow cores goes from idle to busy within one rounding error: interpolate between the bounds
    lacks, exceeds = _missing(below, wanted, in_progress), -_missing(above, wanted, in_progress)
    yield
    part = lacks / (lacks + exceeds) if lacks > 0 else 0.0
    rates = [one + part * (other - one) for one, other in zip(below.rates, above.rates, strict=True)]
    yield
    loads = [one + part * (other - one) for one, other in zip(below.loads, above.loads, strict=True)]
    yield
    scale = rate / sum(rates) if sum(rates) > 0 else 0.0
    scaled = [rate * scale for rate in rates]
    yield
    found = OperatingPoint(tuple(scaled), tuple(loads))
    yield
    return found


def _servers(
    capacities: Sequence[float],
    cores: Sequence[float],
    other_tasks: Mapping[int, float],
    standstills: Mapping[int, float],
) -> Steps[_Servers]:
    """Return an item of each member for ``_split``."""
    servers: list[tuple[float, float, float, float, float]] = []
    like = {m: _server(1.0, parallel_requests(m), 0.0, 0.0) for m in set(cores)}  # few members differ
    yield
    for part in parts(len(capacities)):
        every = [(capacity, like[m]) for capacity, m in zip(capacities[part], cores[part], strict=True)]
        servers += [(capacity, m, extra, exponent, wait) for capacity, (_, m, extra, exponent, wait) in every]
        yield
    contended = tuple(other_tasks.keys() | standstills.keys())
    for part in parts(len(contended), _CONTENDED_AT_ONCE):
        for i in contended[part]:
            tasks, wait = other_tasks.get(i, 0.0), standstills.get(i, 0.0)
            servers[i] = _server(capacities[i], parallel_requests(cores[i]), tasks, wait)
        yield
    return servers


def _guesses(
    servers: _Servers, capacities: Sequence[float], wanted: float, in_progress: float
) -> Steps[Sequence[float]]:
    """Return costs near the one to be found, in ascending order."""
    size = len(servers)
    if size < 4 * _SAMPLE:
        return []
    places = [number * _STRIDE % size for number in range(_SAMPLE)]
    sample = [servers[place] for place in places]
    carried = sum([capacities[place] for place in places])
    part, most = carried / sum(capacities), MAX_UTILISATION * carried
    costs: list[float] = []
    for near in _AROUND:
        found = yield from _search(sample, min(most, wanted * part * near), in_progress * part * near, [])
        costs.append(found[2])
    return costs


@dataclass(slots=True)
class _Bound:
    """A bound of the search: the reciprocal of the cost's square root, the point, and what it lacks."""

    at: float
    point: OperatingPoint
    missing: float


def _tried(servers: _Servers, wanted: float, in_progress: float, at: float) -> Steps[_Bound]:
    point = yield from _split(servers, 1 / (at * at))
    if len(servers) > STEP:
        yield
    return _Bound(at, point, _missing(point, wanted, in_progress))


def _search(
    servers: _Servers, wanted: float, in_progress: float, guesses: Sequence[float]
) -> Steps[tuple[OperatingPoint, OperatingPoint, float]]:
    """Return two points: one that lacks some of the ``wanted`` rate or of the requests ``in_progress``, and one that
    does not. The third value is the cost of one of them, which is nearly as wanted unless all members have many slow
    cores.
    """
    idle = (0.0,) * len(servers)
    # s: slightly below the marginal cost of the first request, since with many slow cores a rounding error matters
    least = min([m / capacity + wait for capacity, m, _, _, wait in servers]) * (1 - 1e-9)
    yield
    below = _Bound(1 / math.sqrt(least), OperatingPoint(idle, idle), 1.0)
    costs = iter(guesses)
    while True:
        at = 1 / math.sqrt(cost) if (cost := next(costs, 0.0)) else below.at / 2
        above = yield from _tried(servers, wanted, in_progress, at)
        if not above.missing > 0:
            break
        below = above
    return (yield from _narrowed(servers, wanted, in_progress, below, above))


def _narrowed(
    servers: _Servers, wanted: float, in_progress: float, below: _Bound, above: _Bound
) -> Steps[tuple[OperatingPoint, OperatingPoint, float]]:
    """Return the points of closer bounds, and the cost at the last one that was tried.

    Rates are almost linear in the reciprocal of the cost's square root, so each step interpolates between the bounds
    (Illinois method). If a step leaves more than half of the range, the next one halves it.
    """
    newest, lacks, exceeds, halve = above, below.missing, above.missing, False
    replaced = None  # the bound that the last step has replaced
    for _ in range(_STEPS):
        width = below.at - above.at
        if abs(newest.missing) <= _ACCURACY or width <= _NARROWEST * below.at:
            break
        at = (above.at * lacks - below.at * exceeds) / (lacks - exceeds)
        # A bound may exceed a tiny rate infinitely
        at = math.sqrt(above.at * below.at) if halve or not above.at <= at <= below.at else at
        newest = yield from _tried(servers, wanted, in_progress, at)
        if newest.missing > 0:
            exceeds = exceeds / 2 if replaced == "below" else exceeds
            below, lacks, replaced = newest, newest.missing, "below"
        else:
            lacks = lacks / 2 if replaced == "above" else lacks
            above, exceeds, replaced = newest, newest.missing, "above"
        halve = not halve and below.at - above.at > width / 2
    return below.point, above.point, 1 / (newest.at * newest.at)


def parallel_requests(cores: float) -> float:
    """Return the number of requests that a member can serve in parallel without slowing any of them down."""
    return max(1.0, round(cores))


def _missing(point: OperatingPoint, wanted: float, in_progress: float) -> float:
    """Return the smaller of two relative gaps: to the target rate and to the target load.

    The result is negative if a target is exceeded.
    """
    return min(1 - sum(point.rates) / wanted, 1 - sum(point.loads) / in_progress)


def _server(
    capacity: float, m: float, other_tasks: float, standstill: float
) -> tuple[float, float, float, float, float]:
    """Return an item for ``_split``, which contains what every step of the search needs."""
    q = max(1.0, m - other_tasks)
    return capacity, max(m, 1 + other_tasks), (q - 1) / 2, 1 / q, standstill


def _split(servers: _Servers, cost: float) -> Steps[OperatingPoint]:
    """Return the operating point at which the marginal cost of one more request/s is ``cost`` seconds at every member.

    ``servers`` lists capacity, m, (q - 1) / 2, 1 / q and the wait during standstills for each member. m is the number
    of tasks that share the cores with a request that arrives alone, but at least the number of parallel requests.
    Without other tasks, q is m. The function solves
    (cost - wait) * capacity / m = (1 + (q - 1) * x) / (1 - x) ** 2 for x, where x = p ** q.
    """
    rates: list[float] = []
    loads: list[float] = []
    add_rate, add_load, sqrt, power = rates.append, loads.append, math.sqrt, math.pow
    for part in parts(len(servers), _AT_ONCE):
        for capacity, m, extra, exponent, wait in servers[part]:
            times = (cost - wait) * capacity / m
            if times <= 1.0:
                add_rate(0.0)
                add_load(0.0)
                continue
            half = times + extra
            x = (times - 1) / (half + sqrt(half * half - times * (times - 1)))
            # A power takes several times as long as a root
            if exponent == 1.0:
                utilisation = x
            elif exponent == 0.5:
                utilisation = sqrt(x)
            else:
                utilisation = sqrt(sqrt(x)) if exponent == 0.25 else power(x, exponent)
            rate = capacity * utilisation
            add_rate(rate)
            add_load(m * utilisation / (1 - x) + rate * wait)
        if len(servers) > SMALL:
            yield
    point = OperatingPoint(tuple(rates), tuple(loads))
    if len(servers) > STEP:
        yield
    return point
