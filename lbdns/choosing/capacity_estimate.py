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
from typing import Any, Final, Protocol

from lbdns.choosing.request_cost import ENOUGH, MAX_SPEED
from lbdns.choosing.robust_estimates import robust_mean_steps, two_largest, winsorised
from lbdns.config.pool_section import MAX_SPEED_GAIN
from lbdns.native_extension import AVAILABLE, provides
from lbdns.policies.steps import SMALL, Steps, finish, parts

if AVAILABLE:
    import lbdns_native

NATIVE: Final = provides("capacities")
NATIVE_COSTS: Final = provides("forget_changed")
PRIOR: Final = 0.5  # CPU seconds of observation that weigh as much as the prior belief that all CPUs are equal
_STEPS: Final = 20  # the true variance between members is found within a range divided by 2 this many times
_COSTS_AT_ONCE: Final = 400  # members in a step that compares the cost of their requests
_TINY: Final = 1e-300  # smallest divisor
MIN_SPREAD: Final = 0.25  # relative variance of the cost of a request: no service is assumed to be more regular
HIGHEST_VARIANCE: Final = 1e18  # relative, between members: those that served next to nothing may differ infinitely
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
    def columns(self) -> tuple[list[Any], ...]:
        """Return all columns, in the order in which ``ObservedCost.served`` returns their items."""
        return self.requests, self.cpu_seconds, self.variances, self.counted

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
    return finish(capacities_steps(work, cores, max_speed_gain))


def capacities_steps(work: ServedWork, cores: Sequence[float], max_speed_gain: float) -> Steps[tuple[float, ...]]:
    """Return the same capacities as ``capacities``, in steps."""
    if not enough_observed(work):
        return tuple(cores)
    if not NATIVE:
        return (yield from _python_steps(work, cores, max_speed_gain))
    limits = PRIOR, MAX_SPEED, MIN_VARIANCE, MOST_FASTER, _STEPS
    observed = work.requests, work.cpu_seconds, work.variances, work.counted
    found = tuple(lbdns_native.capacities(*observed, cores, max_speed_gain, limits))
    yield
    return found


def python_capacities(work: ServedWork, cores: Sequence[float], max_speed_gain: float) -> tuple[float, ...]:
    """Return the same capacities as ``capacities``, without the native extension. The pool must have served enough
    requests."""
    return finish(_python_steps(work, cores, max_speed_gain))


def _python_steps(work: ServedWork, cores: Sequence[float], max_speed_gain: float) -> Steps[tuple[float, ...]]:
    speeds = yield from _speed_steps(work)
    yield
    found = [m * speed if m * speed > 1e-9 else 1e-9 for speed, m in zip(speeds, cores, strict=True)]
    yield
    proven = yield from proven_steps(found, cores, work.counted)
    limited = _limited_to_others(found, proven, max_speed_gain)
    yield
    return limited


def observed_speeds(work: ServedWork) -> list[float]:
    """Return each member's speed in requests per CPU second. The pool must have served some requests."""
    return finish(_speed_steps(work))


def _speed_steps(work: ServedWork) -> Steps[list[float]]:
    common = yield from _common_speed_steps(work)
    speeds: list[float] = []
    variances: list[float] = []
    for part in parts(len(work.requests)):
        counted = work.counted[part]
        observed = zip(work.requests[part], work.cpu_seconds[part], counted, strict=True)
        speeds += [
            (requests + PRIOR * common) / (cpu + PRIOR) if known else common for requests, cpu, known in observed
        ]
        variances += [v if known else math.inf for v, known in zip(work.variances[part], counted, strict=True)]
        yield
    return (yield from _shrunk_steps(speeds, variances))


def common_speed(work: ServedWork) -> float:
    """Return the mean speed of the members that have served requests, or 0 if there are none.

    If only two members report requests, the slower member's speed is returned, because either member could raise the
    mean by reporting a very high speed. With such a mean, the members that report no requests would seem far faster
    than the other reporting member, and that member would get no requests.
    """
    return finish(_common_speed_steps(work))


def _common_speed_steps(work: ServedWork) -> Steps[float]:
    speeds: list[float] = []
    weights: list[float] = []
    for part in parts(len(work.requests)):
        served = zip(work.requests[part], work.cpu_seconds[part], strict=True)
        known = [(requests / cpu, cpu) for requests, cpu in served if requests > 0 and cpu > 0]
        found = [(speed if speed < MAX_SPEED else MAX_SPEED, cpu) for speed, cpu in known if speed > 0]
        speeds += [speed for speed, _ in found]
        weights += [cpu / (cpu + PRIOR) for _, cpu in found]
        yield
    if not speeds or sum(work.counted) < 3:
        return min(speeds, default=0.0)
    return (yield from robust_mean_steps(speeds, weights))


def _shrunk_steps(speeds: Sequence[float], variances: Sequence[float]) -> Steps[list[float]]:
    """Return ``speeds``, each moved towards the mean. The more likely a speed's difference from the mean is due to
    chance, the further the speed is moved.

    The result is an empirical Bayes estimate. ``variances`` are relative to the squares of the speeds; a speed that was
    not observed has infinite variance. Members with identical values and variances get identical results, so they
    continue to take turns.
    """
    known: list[tuple[float, float]] = []
    for part in parts(len(speeds)):
        known += [
            (speed, MIN_VARIANCE if variance < MIN_VARIANCE else variance)
            for speed, variance in zip(speeds[part], variances[part], strict=True)
            if variance < math.inf
        ]
        yield
    if not known:
        return list(speeds)
    inner = winsorised([speed for speed, _ in known])
    yield
    between = yield from _variance_steps(known, inner)
    mean = _mean_speed(known, inner, between)
    found: list[float] = []
    for part in parts(len(speeds)):
        yield
        found += [
            speed
            if variance == math.inf
            else mean + (speed - mean) * between / (between + (MIN_VARIANCE if variance < MIN_VARIANCE else variance))
            for speed, variance in zip(speeds[part], variances[part], strict=True)
        ]
    return found


def variance_between_members(known: Sequence[tuple[float, float]], inner: Sequence[float]) -> float:
    """Return the relative variance of the members' true speeds, by the method of Paule and Mandel (1982).

    ``known`` lists (speed, relative variance) pairs; ``inner`` lists the winsorised speeds. With this variance, the
    expected differences between members equal the observed differences. False reports from one member can only make
    this variance too large. In that case, the other members' estimates stay close to their observed speeds.
    """
    return finish(_variance_steps(known, inner))


def _variance_steps(known: Sequence[tuple[float, float]], inner: Sequence[float]) -> Steps[float]:
    if not AVAILABLE:
        return (yield from _python_variance_steps(known, inner))
    speeds, variances = [speed for speed, _ in known], [variance for _, variance in known]
    found = lbdns_native.variance_between(speeds, variances, inner, _STEPS)
    yield
    return found


def python_variance_between_members(known: Sequence[tuple[float, float]], inner: Sequence[float]) -> float:
    """Return the same variance as ``variance_between_members``, without the native extension."""
    return finish(_python_variance_steps(known, inner))


def _python_variance_steps(known: Sequence[tuple[float, float]], inner: Sequence[float]) -> Steps[float]:
    speeds, variances = [speed for speed, _ in known], [variance for _, variance in known]
    yield

    def differences(between: float) -> Steps[float]:
        # Runs some 10 times per plan: lists, because generators and powers cost twice as much
        mean = _mean_speed(known, inner, between)
        if is_large:
            yield
        gaps = [speed / mean - 1 for speed in speeds]
        if is_large:
            yield
        found = sum([gap * gap / (variance + between) for gap, variance in zip(gaps, variances, strict=True)])
        if is_large:
            yield
        return found

    is_large = len(known) > SMALL
    expected = len(known) - 1.0
    high = float(len(known))
    at_zero = yield from differences(0.0)
    if at_zero <= expected:
        return 0.0
    while (at_high := (yield from differences(high))) > expected and high < HIGHEST_VARIANCE:
        high *= 4
    return (yield from _first_step(differences, expected, high, at_zero, at_high))


def _first_step(
    differences: Callable[[float], Steps[float]], expected: float, high: float, at_zero: float, at_high: float
) -> Steps[float]:
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
        value = yield from differences(step * unit)
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
    return finish(forget_changed_steps(costs))


def forget_changed_steps(costs: Sequence[ObservedCost]) -> Steps[list[int]]:
    """Do the same as ``forget_changed``, in steps."""
    if NATIVE_COSTS:
        changed = lbdns_native.forget_changed(list(costs), MIN_SPREAD)
        yield
        if changed is not None:
            return changed
    return (yield from _python_forget_steps(costs))


def python_forget_changed(costs: Sequence[ObservedCost]) -> list[int]:
    """Do the same as ``forget_changed``, without the native extension."""
    return finish(_python_forget_steps(costs))


def _python_forget_steps(costs: Sequence[ObservedCost]) -> Steps[list[int]]:
    if not any(cost.recent_requests > 0 for cost in costs):
        return []
    known: list[float] = []
    for part in parts(len(costs), _COSTS_AT_ONCE):
        known += [spread for cost in costs[part] if (spread := cost.squared_spread()) is not None]
        yield
    mean = (yield from robust_mean_steps(known, [1.0] * len(known))) if known else MIN_SPREAD
    spread, changed = max(MIN_SPREAD, mean), list[int]()
    for part in parts(len(costs), _COSTS_AT_ONCE):
        changed += [i for i, cost in enumerate(costs[part], part.start) if cost.has_changed(spread)]
        yield
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
    return finish(proven_steps(capacity, cores, counted))


def proven_steps(
    capacity: Sequence[float], cores: Sequence[float], counted: Sequence[bool]
) -> Steps[tuple[float, ...]]:
    """Return the same capacities as ``proven_capacities``, in steps."""
    if not NATIVE:
        return (yield from _python_proven_steps(capacity, cores, counted))
    found = tuple(lbdns_native.proven_capacities(capacity, cores, counted))
    yield
    return found


def python_proven_capacities(
    capacity: Sequence[float], cores: Sequence[float], counted: Sequence[bool]
) -> tuple[float, ...]:
    """Return the same capacities as ``proven_capacities``, without the native extension."""
    return finish(_python_proven_steps(capacity, cores, counted))


def _python_proven_steps(
    capacity: Sequence[float], cores: Sequence[float], counted: Sequence[bool]
) -> Steps[tuple[float, ...]]:
    observed = zip(capacity, cores, counted, strict=True)
    speeds = [c / m for c, m, is_counted in observed if is_counted]
    yield
    fastest = two_largest(speeds)
    yield
    if len(fastest) < 2:
        return tuple(capacity)
    second = fastest[1]
    limited = [most if (most := m * second) < c else c for c, m in zip(capacity, cores, strict=True)]
    yield
    return tuple(limited)
