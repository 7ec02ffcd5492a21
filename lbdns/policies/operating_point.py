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
sharing with permanent customers).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.native_extension import AVAILABLE

if AVAILABLE:
    import lbdns_native

MAX_UTILISATION: Final = 0.98  # above this utilisation the shares hardly change, but the search takes longer
_ACCURACY: Final = 1e-3  # relative to the wanted rate or load
_STEPS: Final = 60  # of the bisection, at most
#: For the native extension
SEARCH_LIMITS: Final = (MAX_UTILISATION, _ACCURACY, _STEPS)
NO_TASKS: Final[Mapping[int, float]] = {}


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
) -> OperatingPoint:
    """Return the best split of ``rate`` requests/s across members that can serve ``capacities`` (requests/s, above 0).

    ``cores`` may contain fractions, because CPU quotas can be fractional; a fraction below one counts as one core. If
    ``rate`` exceeds the total capacity, it is split in the same proportions as the highest rate that the pool can
    serve. ``in_progress`` is the maximum number of requests in progress in the whole pool. There is such a maximum if
    each client waits for a response before its next request. ``other_tasks`` contains the runnable tasks of other
    programs on the hosts of some members, by place.
    """
    if not AVAILABLE:
        return python_operating_point(capacities, cores, rate, in_progress, other_tasks)
    tasks = list(other_tasks.items())
    rates, loads = lbdns_native.operating_point(capacities, cores, tasks, rate, in_progress, *SEARCH_LIMITS)
    return OperatingPoint(tuple(rates), tuple(loads))


def python_operating_point(
    capacities: Sequence[float],
    cores: Sequence[float],
    rate: float,
    in_progress: float = math.inf,
    other_tasks: Mapping[int, float] = NO_TASKS,
) -> OperatingPoint:
    """Return the same numbers as ``operating_point``, without the native extension."""
    servers = [
        _server(capacity, parallel_requests(m), other_tasks.get(i, 0.0))
        for i, (capacity, m) in enumerate(zip(capacities, cores, strict=True))
    ]
    wanted, in_progress = min(rate, MAX_UTILISATION * sum(capacities)), max(1.0, in_progress)
    if wanted <= 0:
        return OperatingPoint((0.0,) * len(servers), (0.0,) * len(servers))
    # s: slightly below the marginal cost of the first request, since with many slow cores a rounding error matters
    low = min(m / capacity for capacity, m, _, _ in servers) * (1 - 1e-9)
    high = 4 * low
    below, above = _split(servers, low), _split(servers, high)
    while _missing(above, wanted, in_progress) > 0:
        low, high = high, 4 * high
        below, above = above, _split(servers, high)
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        tried = _split(servers, middle)
        missing = _missing(tried, wanted, in_progress)
        if missing > 0:
            low, below = middle, tried
        else:
            high, above = middle, tried
        if abs(missing) <= _ACCURACY:
            break
    # A member with many slow cores goes from idle to busy within one rounding error: interpolate between the bounds
    lacks, exceeds = _missing(below, wanted, in_progress), -_missing(above, wanted, in_progress)
    part = lacks / (lacks + exceeds) if lacks > 0 else 0.0
    rates = [one + part * (other - one) for one, other in zip(below.rates, above.rates, strict=True)]
    loads = [one + part * (other - one) for one, other in zip(below.loads, above.loads, strict=True)]
    scale = rate / sum(rates) if sum(rates) > 0 else 0.0
    return OperatingPoint(tuple(rate * scale for rate in rates), tuple(loads))


def parallel_requests(cores: float) -> float:
    """Return the number of requests that a member can serve in parallel without slowing any of them down."""
    return max(1.0, round(cores))


def _missing(point: OperatingPoint, wanted: float, in_progress: float) -> float:
    """Return the smaller of two relative gaps: to the target rate and to the target load.

    The result is negative if a target is exceeded.
    """
    return min(1 - sum(point.rates) / wanted, 1 - sum(point.loads) / in_progress)


def _server(capacity: float, m: float, other_tasks: float) -> tuple[float, float, float, float]:
    """Return an item for ``_split``, which contains what every step of the search needs."""
    q = max(1.0, m - other_tasks)
    return capacity, max(m, 1 + other_tasks), (q - 1) / 2, 1 / q


def _split(servers: Sequence[tuple[float, float, float, float]], cost: float) -> OperatingPoint:
    """Return the operating point at which the marginal cost of one more request/s is ``cost`` seconds at every member.

    ``servers`` lists capacity, m, (q - 1) / 2 and 1 / q for each member, where m is the number of tasks that share the
    cores with a request that arrives alone, but at least the number of parallel requests. Without other tasks, q is m.
    The function solves cost * capacity / m = (1 + (q - 1) * x) / (1 - x) ** 2 for x, where x = p ** q.
    """
    rates: list[float] = []
    loads: list[float] = []
    add_rate, add_load, sqrt, power = rates.append, loads.append, math.sqrt, math.pow
    for capacity, m, extra, exponent in servers:
        times = cost * capacity / m
        if times <= 1.0:
            add_rate(0.0)
            add_load(0.0)
            continue
        half = times + extra
        x = (times - 1) / (half + sqrt(half * half - times * (times - 1)))
        utilisation = power(x, exponent)
        add_rate(capacity * utilisation)
        add_load(m * utilisation / (1 - x))
    return OperatingPoint(tuple(rates), tuple(loads))
