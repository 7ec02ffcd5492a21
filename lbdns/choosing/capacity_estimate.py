"""Capacity estimates: the requests/s that each member can serve, estimated from its requests per CPU second.

The estimate covers about the last minute. It uses only the web server's CPU time, because the utilisation of the whole
host would be misleading if the host also runs other programs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

MEMORY: Final = 60.0  # s: time constant with which old observations fade
RECENT: Final = 4.0  # s: the same for the current cost of requests
CHANGED: Final = 2.0  # if requests cost this factor more (or less) than over the last minute, their kind changed ...
UNLIKELY: Final = 4.0  # ... if the change is at least this many standard deviations, ...
SQUARES: Final = 5.0  # ... where the mean square of the cost of a request is this many times the square of its mean
MIN_CPU: Final = 0.05  # CPU seconds, five kernel clock ticks: the counters' resolution must not look like a change
PRIOR: Final = 0.5  # CPU seconds of observation that weigh as much as the prior belief that all CPUs are equal
ENOUGH: Final = 20.0  # requests to the whole pool before its capacities count as observed
_STEPS: Final = 20  # of the bisection for the true variance between members
MIN_VARIANCE: Final = 1e-6  # relative variance of a practically certain value
CPU_MARGIN: Final = 1.25  # times the CPU seconds that a host's cores have: a report that claims more is wrong
MAX_SPEED: Final = 1e6  # requests per CPU second: no web server is faster
MOST_FASTER: Final = 32.0  # times the speed of the fastest other member: cores do not differ by more
MORE_CORES: Final = 4.0  # times the pool's median number of cores: the most that counts, unless configured otherwise
MAX_LOAD: Final = 1e5  # requests in progress: no web server has more
MIN_CORES: Final = 1e-3  # no quota is smaller ...
MAX_CORES: Final = 1e6  # ... and no machine larger
MAX_VALUE: Final = 1e15  # requests or seconds: above it, sums of floats lose single units


class RequestCost:
    """The requests served and CPU time used by one member's web server; older observations have less weight."""

    def __init__(self) -> None:
        self.requests = 0.0
        self.cpu_seconds = 0.0
        self.recent_requests = self.recent_cpu_seconds = 0.0
        # Sums of squares and products over single reports, for the variance of the cost of a request
        self._requests_squared = self._product = self._cpu_squared = 0.0
        self.counted = False  # whether the member ever reported its requests; one report without them proves nothing
        self._last: Mapping[str, float] | None = None

    def observe(self, metrics: Mapping[str, float], seconds: float, status_requests: float = 0.0) -> None:
        """Record the metrics of a report that came ``seconds`` after the previous report.

        If a counter has decreased (because of a restart) or has increased more than is possible, its value is used only
        as the new baseline.
        ``status_requests`` (the number of the agent's own server-status requests) is subtracted from the requests.
        Status requests use almost no CPU time: if they were counted, then after an idle night, every server would seem
        ten times as fast as it is.
        """
        last, self._last = self._last, metrics
        self.counted = self.counted or "requests_total" in metrics
        if last is None or seconds <= 0:
            return
        fading = math.exp(-seconds / MEMORY)
        self.requests *= fading
        self.cpu_seconds *= fading
        soon = math.exp(-seconds / RECENT)
        self.recent_requests *= soon
        self.recent_cpu_seconds *= soon
        requests, cpu = _work_between(last, metrics, seconds)
        if requests is not None and cpu is not None:
            requests = max(0.0, requests - status_requests)
            self.requests += requests
            self.cpu_seconds += cpu
            self.recent_requests += requests
            self.recent_cpu_seconds += cpu
            squared = fading * fading  # the variance of a fading sum fades twice as fast
            self._requests_squared = self._requests_squared * squared + requests * requests
            self._product = self._product * squared + requests * cpu
            self._cpu_squared = self._cpu_squared * squared + cpu * cpu

    @property
    def relative_variance(self) -> float:
        """Return the variance of ``requests / cpu_seconds`` relative to the squared mean, or inf if unknown."""
        if self.requests <= 0 or self.cpu_seconds <= 0:
            return math.inf
        each = self.cpu_seconds / self.requests
        variance = self._cpu_squared - 2 * self._product * each + self._requests_squared * each * each
        return max(0.0, variance) / self.cpu_seconds / self.cpu_seconds


def _work_between(
    last: Mapping[str, float], now: Mapping[str, float], seconds: float
) -> tuple[float | None, float | None]:
    """Return the requests and CPU seconds between two reports; None if unknown or, for either of them, impossible."""
    requests = _increase(last, now, "requests_total")
    cpu = _increase(last, now, "httpd_cpu_seconds")
    cores = now.get("cpu_count", 1.0)
    if cpu is None and "cpu_idle" in now and "httpd_cpu_seconds" not in now:
        cpu = max(0.0, 1 - now["cpu_idle"] / 100) * cores * seconds
    if requests is None or cpu is None:
        return requests, cpu
    # The server may have been limited to fewer cores only since the previous report, and clocks are not exact
    most_cpu = CPU_MARGIN * max(cores, last.get("cpu_count", 1.0), 1.0) * seconds + MIN_CPU
    return (requests, cpu) if cpu <= most_cpu and requests <= MAX_SPEED * (cpu + MIN_CPU) else (None, None)


def _increase(last: Mapping[str, float], now: Mapping[str, float], counter: str) -> float | None:
    if counter not in last or counter not in now or now[counter] < last[counter]:
        return None
    return now[counter] - last[counter]


def capacities(costs: Sequence[RequestCost], cores: Sequence[float]) -> tuple[float, ...]:
    """Return each member's capacity in requests/s, or its number of cores until the pool has served enough requests."""
    if not enough_observed(costs):
        return tuple(cores)
    # All speeds are in requests per CPU second
    requests = _credible_requests(costs)
    common = min(MAX_SPEED, sum(requests) / sum(cost.cpu_seconds for cost in costs))
    speeds = [
        (served + PRIOR * common) / (cost.cpu_seconds + PRIOR) if cost.counted else common
        for cost, served in zip(costs, requests, strict=True)
    ]
    variances = [cost.relative_variance if cost.counted else math.inf for cost in costs]
    speeds = _shrunk_to_mean(speeds, variances)
    factor = _recent_speed_factor(costs, speeds)
    return tuple(max(1e-9, m * speed * factor) for speed, m in zip(speeds, cores, strict=True))


def _credible_requests(costs: Sequence[RequestCost]) -> list[float]:
    """Return the requests that each member has served, limited to ``MOST_FASTER`` times the next fastest speed.

    The limit keeps a member that claims an absurd speed from deciding what the other members' capacities are.
    """
    speeds = [cost.requests / cost.cpu_seconds if cost.cpu_seconds > MIN_CPU else 0.0 for cost in costs]
    first, second = sorted((*speeds, 0.0))[:-3:-1]
    others = (second if speed == first else first for speed in speeds)
    return [
        min(cost.requests, MOST_FASTER * other * max(cost.cpu_seconds, MIN_CPU)) if other else cost.requests
        for cost, other in zip(costs, others, strict=True)
    ]


def _recent_speed_factor(costs: Sequence[RequestCost], speeds: Sequence[float]) -> float:
    """Return how many times as fast requests are now served as in the last minute, or 1 if the change is small.

    Without this factor, a pool would seem able to handle twenty times its load when CGI programs replace its static
    pages.
    """
    requests = sum(cost.recent_requests for cost in costs)
    if requests < 1:
        return 1.0
    expected = sum(cost.recent_requests / speed for cost, speed in zip(costs, speeds, strict=True))
    factor = (expected + MIN_CPU) / (sum(cost.recent_cpu_seconds for cost in costs) + MIN_CPU)
    significant = max(math.log(CHANGED), UNLIKELY * math.sqrt(SQUARES / requests))
    return factor if abs(math.log(factor)) > significant else 1.0


def _shrunk_to_mean(values: Sequence[float], variances: Sequence[float]) -> list[float]:
    """Return ``values``, shrunk towards their mean to the extent that chance can explain their differences.

    The result is an empirical Bayes estimate. ``variances`` are relative to the squares of the values; a value that was
    not observed has infinite variance. Members with identical values and variances get identical results, so they
    continue to take turns.
    """
    known = [
        (v, max(variance, MIN_VARIANCE)) for v, variance in zip(values, variances, strict=True) if variance < math.inf
    ]
    if not known:
        return list(values)
    between = _variance_between_members(known)
    mean = _weighted_mean(known, between)
    return [
        v if variance == math.inf else mean + (v - mean) * between / (between + max(variance, MIN_VARIANCE))
        for v, variance in zip(values, variances, strict=True)
    ]


def _variance_between_members(known: Sequence[tuple[float, float]]) -> float:
    """Return the relative variance of the members' true values, by the method of Paule and Mandel (1982).

    ``known`` lists (value, relative variance) pairs. With this variance, the expected differences between the members
    are as large as the observed differences.
    """

    def differences(between: float) -> float:
        mean = _weighted_mean(known, between)
        return sum((value / mean - 1) ** 2 / (variance + between) for value, variance in known)

    expected = len(known) - 1.0
    low, high = 0.0, float(len(known))
    if differences(low) <= expected:
        return 0.0
    while differences(high) > expected:
        high *= 4
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if differences(middle) > expected else (low, middle)
    return high


def _weighted_mean(known: Sequence[tuple[float, float]], between: float) -> float:
    """Return the mean of the values, weighting each value by the inverse of its total variance."""
    weights = [1 / (variance + between) for _, variance in known]
    return sum(w * value for w, (value, _) in zip(weights, known, strict=True)) / sum(weights)


def enough_observed(costs: Sequence[RequestCost]) -> bool:
    """Return whether the pool has served enough requests for capacities in requests/s to be estimated."""
    return sum(cost.requests for cost in costs) > ENOUGH and sum(cost.cpu_seconds for cost in costs) > 0


def loads(metrics: Sequence[Mapping[str, float]], capacity: Sequence[float]) -> tuple[float, ...]:
    """Return each member's load: its number of unfinished requests or of runnable tasks, whichever is greater.

    A member that reports no load is assumed to have the same ratio of load to capacity as the other members combined.
    """
    known = [load_of(member) for member in metrics]
    full = sum(load for load in known if load is not None)
    room = sum(c for load, c in zip(known, capacity, strict=True) if load is not None)
    level = full / room if room > 0 else 0.0
    return tuple(level * c if load is None else load for load, c in zip(known, capacity, strict=True))


def plausible(metrics: Mapping[str, float]) -> Mapping[str, float]:
    """Return ``metrics`` without impossible values, so that one broken agent cannot distort the pool's totals."""
    if not metrics:
        return metrics
    # The usual case needs no call per metric. The sum is NaN if any metric is NaN
    values, cores = metrics.values(), metrics.get("cpu_count", MIN_CORES)
    in_range = min(values) >= -MAX_VALUE and max(values) <= MAX_VALUE and MIN_CORES <= cores <= MAX_CORES
    if in_range and not math.isnan(sum(values)):
        return metrics
    return dict(filter(_is_plausible, metrics.items()))


def _is_plausible(metric: tuple[str, float]) -> bool:
    name, value = metric
    return MIN_CORES <= value <= MAX_CORES if name == "cpu_count" else -MAX_VALUE <= value <= MAX_VALUE


def load_of(metrics: Mapping[str, float]) -> float | None:
    """Return the number of a member's requests that are in progress or waiting to be accepted, or None if unknown.

    If all workers of a web server are busy, the rest of its load is in the listen queue. Without ``busy_workers``, the
    load is the run queue or the listen queue, whichever is longer. The listen queue alone would say too little, because
    it is empty on every server that keeps up with its requests.
    """
    waiting, run_queue = metrics.get("listen_queue", 0.0), metrics.get("run_queue")
    if "busy_workers" in metrics:
        return min(MAX_LOAD, max(0.0, metrics["busy_workers"] + max(0.0, waiting), run_queue or 0.0))
    return None if run_queue is None else min(MAX_LOAD, max(0.0, run_queue, waiting))


def counted_cores(reported: Sequence[float | None], most: float = 0.0) -> list[float]:
    """Return the number of cores with which each member counts.

    At most ``most`` cores count for a member or, if ``most`` is 0, ``MORE_CORES`` times the pool's median. A member
    that reports no cores counts with the mean of the others, or with 1 core if no member reports its cores.
    """
    known = [cores for cores in reported if cores is not None and cores > 0]
    if not known:
        return [1.0] * len(reported)
    # Of two, the smaller one: a single member cannot raise it
    most = most or MORE_CORES * statistics.median_low(known)
    mean = sum(min(cores, most) for cores in known) / len(known)
    return [mean if cores is None or cores <= 0 else min(cores, most) for cores in reported]
