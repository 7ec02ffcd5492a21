"""Capacity estimates: the requests/s that each member can serve, estimated from its requests per CPU second.

Only the web server's CPU time counts, because the host's total CPU time would be misleading if other programs also run
there. A member's own reports determine its speed, but only within limits. In a pool of three or more members, one
member's reports hardly affect the other members' speeds, because values shared by all members are estimated robustly.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from lbdns.choosing.request_cost import ENOUGH, MAX_SPEED
from lbdns.choosing.robust_estimates import robust_mean, winsorised
from lbdns.config.pool_section import MAX_SPEED_GAIN
from lbdns.native_extension import AVAILABLE, provides

if AVAILABLE:
    import lbdns_native

NATIVE: Final = provides("capacities")
NATIVE_COSTS: Final = provides("forget_changed")
PRIOR: Final = 0.5  # CPU seconds of observation that weigh as much as the prior belief that all CPUs are equal
_STEPS: Final = 20  # the true variance between members is found within a range divided by 2 this many times
_TINY: Final = 1e-300  # smallest divisor
MIN_SPREAD: Final = 0.25  # relative variance of the cost of a request: no service is assumed to be more regular
MIN_VARIANCE: Final = 1e-6  # relative variance of a practically certain value
MOST_FASTER: Final = 4.0  # times that gain: no core counts as this many times as fast as the next fastest


class ObservedCost(Protocol):
    """The requests that one member has served, and their cost: a ``RequestCost``, or its native counterpart."""

    def served(self) -> tuple[float, float, float, bool]: ...
    @property
    def recent_requests(self) -> float: ...
    def squared_spread(self) -> float | None: ...
    def has_changed(self, spread: float) -> bool: ...
    def forget(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ServedWork:
    """What the members of a pool have served, by column: a list for each value, with an item for each member."""

    requests: list[float]
    cpu_seconds: list[float]
    variances: list[float]  # of the speed, relative to its square; inf if unknown
    counted: list[bool]  # whether the member ever reported its requests

    @classmethod
    def of(cls, costs: Sequence[ObservedCost]) -> ServedWork:
        """Return the work in ``costs``."""
        found = cls([0.0] * len(costs), [0.0] * len(costs), [math.inf] * len(costs), [False] * len(costs))
        for i, cost in enumerate(costs):
            found.update(i, cost)
        return found

    def update(self, i: int, cost: ObservedCost) -> None:
        """Replace the items with index ``i``."""
        self.requests[i], self.cpu_seconds[i], self.variances[i], self.counted[i] = cost.served()

    @property
    def speeds(self) -> list[float]:
        """Return each member's requests per CPU second, at most ``MAX_SPEED``, or 0 if either number is 0."""
        return [
            min(MAX_SPEED, requests / cpu) if requests > 0 and cpu > 0 else 0.0
            for requests, cpu in zip(self.requests, self.cpu_seconds, strict=True)
        ]


def enough_observed(work: ServedWork) -> bool:
    """Return whether the pool has served enough requests to estimate capacities in requests/s."""
    return sum(work.requests) > ENOUGH and sum(work.cpu_seconds) > 0


def capacities(work: ServedWork, cores: Sequence[float], max_speed_gain: float = MAX_SPEED_GAIN) -> tuple[float, ...]:
    """Return each member's capacity in requests/s, or its number of cores if the pool has served too few requests.

    The fastest member's share of the pool's capacity is limited to ``max_speed_gain`` times a reference. The reference
    is the share that this member would have if it were only as fast as the next fastest member.
    """
    if not enough_observed(work):
        return tuple(cores)
    if not NATIVE:
        return python_capacities(work, cores, max_speed_gain)
    limits = PRIOR, MAX_SPEED, MIN_VARIANCE, MOST_FASTER, _STEPS
    observed = work.requests, work.cpu_seconds, work.variances, work.counted
    return tuple(lbdns_native.capacities(*observed, cores, max_speed_gain, limits))


def python_capacities(work: ServedWork, cores: Sequence[float], max_speed_gain: float) -> tuple[float, ...]:
    """Return the same capacities as ``capacities``, without the native extension. The pool must have served enough
    requests."""
    found = [max(1e-9, m * speed) for speed, m in zip(observed_speeds(work), cores, strict=True)]
    return _limited_to_others(found, python_proven_capacities(found, cores, work.counted), max_speed_gain)


def observed_speeds(work: ServedWork) -> list[float]:
    """Return each member's speed in requests per CPU second. The pool must have served some requests."""
    common = common_speed(work)
    observed = zip(work.requests, work.cpu_seconds, work.counted, strict=True)
    speeds = [(requests + PRIOR * common) / (cpu + PRIOR) if counted else common for requests, cpu, counted in observed]
    variances = [v if counted else math.inf for v, counted in zip(work.variances, work.counted, strict=True)]
    return _shrunk_to_mean(speeds, variances)


def common_speed(work: ServedWork) -> float:
    """Return the mean speed of the members that have served requests, or 0 if there are none.

    If only two members report requests, the slower member's speed is returned, because either member could raise the
    mean by reporting a very high speed. With such a mean, the members that report no requests would seem far faster
    than the other reporting member, and that member would get no requests.
    """
    known = [(speed, cpu) for speed, cpu in zip(work.speeds, work.cpu_seconds, strict=True) if speed > 0]
    if not known or sum(work.counted) < 3:
        return min((speed for speed, _ in known), default=0.0)
    return robust_mean([speed for speed, _ in known], [cpu / (cpu + PRIOR) for _, cpu in known])


def _shrunk_to_mean(speeds: Sequence[float], variances: Sequence[float]) -> list[float]:
    """Return ``speeds``, each moved towards the mean. The more likely a speed's difference from the mean is due to
    chance, the further the speed is moved.

    The result is an empirical Bayes estimate. ``variances`` are relative to the squares of the speeds; a speed that was
    not observed has infinite variance. Members with identical values and variances get identical results, so they
    continue to take turns.
    """
    known = [
        (speed, max(variance, MIN_VARIANCE))
        for speed, variance in zip(speeds, variances, strict=True)
        if variance < math.inf
    ]
    if not known:
        return list(speeds)
    inner = winsorised([speed for speed, _ in known])
    between = variance_between_members(known, inner)
    mean = _mean_speed(known, inner, between)
    return [
        speed if variance == math.inf else mean + (speed - mean) * between / (between + max(variance, MIN_VARIANCE))
        for speed, variance in zip(speeds, variances, strict=True)
    ]


def variance_between_members(known: Sequence[tuple[float, float]], inner: Sequence[float]) -> float:
    """Return the relative variance of the members' true speeds, by the method of Paule and Mandel (1982).

    ``known`` lists (speed, relative variance) pairs; ``inner`` lists the winsorised speeds. With this variance, the
    expected differences between members equal the observed differences. False reports from one member can only make
    this variance too large. In that case, the other members' estimates stay close to their observed speeds.
    """
    if not AVAILABLE:
        return python_variance_between_members(known, inner)
    speeds, variances = [speed for speed, _ in known], [variance for _, variance in known]
    return lbdns_native.variance_between(speeds, variances, inner, _STEPS)


def python_variance_between_members(known: Sequence[tuple[float, float]], inner: Sequence[float]) -> float:
    """Return the same variance as ``variance_between_members``, without the native extension."""
    speeds, variances = [speed for speed, _ in known], [variance for _, variance in known]

    def differences(between: float) -> float:
        # Runs some 25 times per plan: lists, because generators and powers cost twice as much
        mean, totals = _mean_speed(known, inner, between), [variance + between for variance in variances]
        gaps = [speed / mean - 1 for speed in speeds]
        return sum([gap * gap / total for gap, total in zip(gaps, totals, strict=True)])

    expected = len(known) - 1.0
    high = float(len(known))
    at_zero = differences(0.0)
    if at_zero <= expected:
        return 0.0
    while (at_high := differences(high)) > expected:
        high *= 4
    return _first_step(differences, expected, high, at_zero, at_high)


def _first_step(
    differences: Callable[[float], float], expected: float, high: float, at_zero: float, at_high: float
) -> float:
    """Divide the range from 0 to ``high`` into 2 ** ``_STEPS`` steps, and return the first step at which
    ``differences``, which decrease, are at most ``expected``.

    ``at_zero`` and ``at_high`` are the differences at the ends of the range. The result is that of a bisection, but
    fewer differences are computed, because their reciprocals are nearly a straight line.
    """
    below, above, unit = 0, 2**_STEPS, high / 2**_STEPS
    inverse_below, inverse_above = 1 / at_zero, 1 / max(at_high, _TINY)
    evaluations = 0
    while above - below > 1:
        evaluations += 1
        if evaluations % 4 == 0 or expected <= 0:  # in case the line is bent, or of one member, has no slope
            step = (below + above) // 2
        else:
            width = inverse_above - inverse_below
            share = (1 / expected - inverse_below) / width if width > 0 else 0.5
            step = below + math.ceil(min(1.0, max(0.0, share)) * (above - below))
            step = min(above - 1, max(below + 1, step))
        value = differences(step * unit)
        if value > expected:
            below, inverse_below = step, 1 / value
        else:
            above, inverse_above = step, 1 / max(value, _TINY)
    return above * unit


def _mean_speed(known: Sequence[tuple[float, float]], inner: Sequence[float], between: float) -> float:
    """Return the mean of the speeds, weighting each by the inverse of its total variance."""
    weights = [1 / (variance + between) for _, variance in known]
    total: float = sum(map(operator.mul, weights, inner))  # an iteration costs half as much as in a generator
    return total / sum(weights)


def forget_changed(costs: Sequence[ObservedCost]) -> list[int]:
    """Discard the earlier observations of each member whose cost per request has changed by more than chance can
    explain. Return the indexes of these members.

    The member's speed is therefore estimated correctly again within seconds of the change. Such a change occurs, for
    example, if pages are replaced with CGI programs, if a host's cores become slower, or if a member's false reports
    end.
    """
    if NATIVE_COSTS:
        changed = lbdns_native.forget_changed(list(costs), MIN_SPREAD)
        if changed is not None:
            return changed
    return python_forget_changed(costs)


def python_forget_changed(costs: Sequence[ObservedCost]) -> list[int]:
    """Do the same as ``forget_changed``, without the native extension."""
    if not any(cost.recent_requests > 0 for cost in costs):
        return []
    known = [spread for cost in costs if (spread := cost.squared_spread()) is not None]
    spread = max(MIN_SPREAD, robust_mean(known, [1.0] * len(known))) if known else MIN_SPREAD
    changed = [i for i, cost in enumerate(costs) if cost.has_changed(spread)]
    for i in changed:
        costs[i].forget()
    return changed


def _limited_to_others(found: Sequence[float], all_proven: Sequence[float], gain: float) -> tuple[float, ...]:
    limited = list(found)
    for i, proven in enumerate(all_proven):
        if found[i] > proven:
            others = sum(found) - found[i]
            room = others - (gain - 1) * proven
            most = gain * proven * others / room if room > 0 else math.inf
            limited[i] = min(found[i], most, MOST_FASTER * gain * proven)
    return tuple(limited)


def proven_capacities(capacity: Sequence[float], cores: Sequence[float], counted: Sequence[bool]) -> tuple[float, ...]:
    """Return each member's capacity, but limit the fastest member's speed to that of the next fastest member.
    ``counted`` states whether each member reports its requests.

    The speed of the fastest member is known only from its own reports. The speed of the next fastest member is
    considered confirmed, because the fastest member reports a speed at least as high. A member that reports no requests
    cannot confirm another member's speed, because its own speed is inferred from the other members.
    """
    if not NATIVE:
        return python_proven_capacities(capacity, cores, counted)
    return tuple(lbdns_native.proven_capacities(capacity, cores, counted))


def python_proven_capacities(
    capacity: Sequence[float], cores: Sequence[float], counted: Sequence[bool]
) -> tuple[float, ...]:
    """Return the same capacities as ``proven_capacities``, without the native extension."""
    observed = zip(capacity, cores, counted, strict=True)
    speeds = sorted([c / m for c, m, is_counted in observed if is_counted], reverse=True)
    if len(speeds) < 2:
        return tuple(capacity)
    second = speeds[1]
    return tuple([most if (most := m * second) < c else c for c, m in zip(capacity, cores, strict=True)])
