"""The cost of requests: how many requests a member has served, and how much CPU time they used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

ENOUGH: Final = 20.0  # requests up to which a capacity counts as unknown
MEMORY: Final = 60.0  # s: time constant with which old observations fade
KEPT: Final = 200.0  # requests: fewer fade more slowly, because few new ones take their place, ...
SLOW_MEMORY: Final = 3600.0  # s: ... with this time constant
RECENT: Final = 4.0  # s: the same for the current cost of requests
MIN_CPU: Final = 0.05  # CPU seconds, five kernel clock ticks: the counters' resolution must not look like a change
CPU_MARGIN: Final = 1.25  # times the CPU seconds that a host's cores have: a report that claims more is wrong
STATUS_CPU: Final = 0.01  # CPU seconds, one kernel clock tick: a server-status request uses at most this much
UNLIKELY: Final = 5.0  # standard deviations by which the cost of a member's requests has changed if not by chance
MAX_SPEED: Final = 1e6  # requests per CPU second: no web server is faster


class FadingWork:
    """Sums of the requests served and the CPU seconds that they used. Older requests lose weight with time constant
    ``tau`` (s).

    For the newest ``kept`` requests, the time constant is ``SLOW_MEMORY``, so they lose weight more slowly. A member
    with few requests per minute can therefore still be compared with others.
    """

    def __init__(self, tau: float, kept: float = 0.0) -> None:
        self.tau, self.kept = tau, kept
        self.requests = self.cpu_seconds = 0.0
        # Sums over single reports, with squared weights: the variance of a fading sum fades twice as fast
        self._counted = self._requests_squared = self._product = self._cpu_squared = 0.0

    def fade(self, seconds: float) -> None:
        """Reduce the weight of the requests recorded so far, because ``seconds`` more seconds have passed."""
        weight = math.exp(-seconds / self.tau)
        if weight * self.requests < self.kept:
            weight = math.exp(-seconds / SLOW_MEMORY) * min(1.0, self.kept / max(self.requests, 1.0))
        self.requests *= weight
        self.cpu_seconds *= weight
        weight *= weight
        self._counted *= weight
        self._requests_squared *= weight
        self._product *= weight
        self._cpu_squared *= weight

    def add(self, requests: float, cpu: float) -> None:
        """Add the number of ``requests`` served since the last call, and the ``cpu`` seconds of CPU time that they
        used.
        """
        self.requests += requests
        self.cpu_seconds += cpu
        self._counted += requests
        self._requests_squared += requests * requests
        self._product += requests * cpu
        self._cpu_squared += cpu * cpu

    @property
    def speed(self) -> float:
        """Return the requests per CPU second, at most ``MAX_SPEED``, or 0 if either number is 0."""
        if self.requests <= 0 or self.cpu_seconds <= 0:
            return 0.0
        return min(MAX_SPEED, self.requests / self.cpu_seconds)

    @property
    def relative_variance(self) -> float:
        """Return the variance of ``speed`` relative to its square, or inf if unknown."""
        if self.requests <= 0 or self.cpu_seconds <= 0:
            return math.inf
        each = self.cpu_seconds / self.requests
        variance = self._cpu_squared - 2 * self._product * each + self._requests_squared * each * each
        return max(0.0, variance) / self.cpu_seconds / self.cpu_seconds

    @property
    def sample_size(self) -> float:
        """Return the effective sample size: the number of unweighted requests that would give ``speed`` the same
        accuracy."""
        return self.requests * (self.requests / self._counted) if self._counted > 0 else 0.0


class RequestCost:
    """The requests that one member's web server has served, and the CPU time that they used."""

    def __init__(self) -> None:
        self.work, self.recent = FadingWork(MEMORY, KEPT), FadingWork(RECENT)
        self._newest = (0.0, 0.0)  # requests and CPU seconds of the newest report
        self.counted = False  # whether the member ever reported its requests; one report without them proves nothing
        self._last: Mapping[str, float] | None = None
        self._statistics: tuple[float | None, float, float] | None = None

    def observe(self, metrics: Mapping[str, float], seconds: float, status_requests: float = 0.0) -> None:
        """Record the metrics of a report that arrived ``seconds`` after the previous report.

        ``status_requests`` is the number of the agent's own server-status requests in that time.
        """
        last, self._last = self._last, metrics
        self.counted = self.counted or "requests_total" in metrics
        if last is None or seconds <= 0:
            return
        self._statistics = None
        self.work.fade(seconds)
        self.recent.fade(seconds)
        self._newest = served_between(last, metrics, seconds, status_requests) or (0.0, 0.0)
        self.work.add(*self._newest)
        self.recent.add(*self._newest)

    def served(self) -> tuple[float, float, float, bool]:
        """Return the requests, their CPU seconds, the relative variance of the speed, and whether the member ever
        reported its requests."""
        return self.work.requests, self.work.cpu_seconds, self.work.relative_variance, self.counted

    @property
    def recent_requests(self) -> float:
        """Return the number of requests in the last few seconds."""
        return self.recent.requests

    def squared_spread(self) -> float | None:
        """Return the variance of one request's cost relative to the squared mean cost, or None if it is unknown."""
        return (self._statistics or self._compute_statistics())[0]

    def has_changed(self, spread: float) -> bool:
        """Return whether the cost of requests has changed by more than chance can explain.

        ``spread`` is the ``squared_spread`` of all members' requests.
        """
        _, sample, change = self._statistics or self._compute_statistics()
        return sample >= 1 and change > UNLIKELY * math.sqrt(spread / sample)

    def _compute_statistics(self) -> tuple[float | None, float, float]:
        """Compute and keep the squared spread, the sample size of the recent requests, and how much their cost has
        changed. They are read about once a second, but do not change between two reports."""
        spread = self.work.relative_variance * self.work.sample_size if self.work.speed > 0 else None
        sample = self.recent.sample_size
        self._statistics = found = (spread, sample, abs(self._change()) if sample >= 1 else 0.0)
        return found

    def _change(self) -> float:
        """Return the logarithm of a ratio: the member's current speed divided by its speed over a longer period."""
        speed, recent = self.work.speed, self.recent
        return math.log((recent.requests / speed + MIN_CPU) / (recent.cpu_seconds + MIN_CPU)) if speed else 0.0

    def forget(self) -> None:
        """Discard all requests and CPU time reported before the newest report."""
        self._statistics = None
        self.work, self.recent = FadingWork(MEMORY, KEPT), FadingWork(RECENT)
        self.work.add(*self._newest)
        self.recent.add(*self._newest)


def served_between(
    last: Mapping[str, float], now: Mapping[str, float], seconds: float, status_requests: float = 0.0
) -> tuple[float, float] | None:
    """Return the clients' requests between two reports, and the CPU seconds that they used, or None if either is
    unknown.

    If a counter has decreased (because of a restart) or has increased more than is possible, its value is used only as
    the new baseline. ``status_requests`` (the number of the agent's own server-status requests) is subtracted from the
    number of requests. Status requests use almost no CPU time. If status requests were counted, every server would seem
    ten times as fast after an idle night.
    """
    requests, cpu = work_between(last, now, seconds)
    if requests is None or cpu is None:
        return None
    requests = max(0.0, requests - status_requests)
    # Otherwise, a member would seem slower the longer it is idle
    return requests, cpu if requests else max(0.0, cpu - STATUS_CPU * status_requests)


def work_between(
    last: Mapping[str, float], now: Mapping[str, float], seconds: float
) -> tuple[float | None, float | None]:
    """Return the requests and CPU seconds between two reports, or None if either number is unknown or impossible."""
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
    before, after = last.get(counter), now.get(counter)
    return None if before is None or after is None or after < before else after - before
