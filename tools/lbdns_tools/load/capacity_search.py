"""The search for the highest load that a server can handle. Sans-I/O.

The search doubles the load until a trial fails, and then bisects the range. A load is accepted if its first trial
passes. If the first trial fails, the majority of up to three trials decides, because a single failure may be an
outlier. Finally, the highest accepted load must pass one more trial. If the last trial fails, the search continues at
lower loads, and every load must then pass at least two trials. If the load generator is the bottleneck, the search ends
and reports this, because the server's limit remains unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, TypeVar

from lbdns_tools.load.run_statistics import RunStatistics

Value = TypeVar("Value")
Attempt = Callable[[Value], RunStatistics]  # runs a trial
Ending = Literal["criteria", "top", "bottom", "generator", "trials"]

PERCENTILES: Final = (50, 90, 95, 99)  # those in RunStatistics
ACCURACY: Final = 0.05  # default, as a share of the result
MAX_TRIALS: Final = 60  # per search: an hour if each takes 60 s


@dataclass(frozen=True, slots=True)
class FailureCriteria:
    """The criteria that decide whether a trial passes. A ``limit_s`` of 0 s accepts any latency. Raises ValueError."""

    error_percent: float = 1.0  # highest share of errors that passes
    percentile: int = 99
    limit_s: float = 0.0  # highest latency at that percentile that passes
    achieved_share: float = 0.95  # lowest share of the requested rate that passes

    def __post_init__(self) -> None:
        if self.percentile not in PERCENTILES:
            raise ValueError(f"the percentile must be one of {', '.join(map(str, PERCENTILES))}, not {self.percentile}")
        if not 0 <= self.error_percent <= 100:
            raise ValueError(f"the share of errors must be between 0 and 100 %, not {self.error_percent:g}")
        if not 0 <= self.achieved_share <= 1:
            raise ValueError(f"the achieved share of the rate must be between 0 and 1, not {self.achieved_share:g}")
        if self.limit_s < 0:
            raise ValueError(f"the latency limit must be 0 s or more, not {self.limit_s:g}")

    def failing(self, figures: RunStatistics, rate: float) -> str:
        """Return the reason why a trial with the statistics ``figures`` fails, or "" if it passes.

        ``rate`` is the requested rate in requests/s. A ``rate`` of 0 means that no rate was requested.
        """
        if figures.error_percent is None or figures.requests_per_s is None:
            return "no result"
        if figures.error_percent > self.error_percent:
            return f"{figures.error_percent:.3g} % errors"
        latency = figures.number(f"p{self.percentile}_s")
        if self.limit_s and (latency is None or latency > self.limit_s):
            return f"p{self.percentile} {1000 * (latency or 0):.4g} ms"
        if figures.requests_per_s < self.achieved_share * rate:
            return f"only {figures.requests_per_s:.4g}/s of {rate:.4g}/s"
        return ""

    def __str__(self) -> str:
        latency = f", p{self.percentile} > {1000 * self.limit_s:g} ms" if self.limit_s else ""
        return f"errors > {self.error_percent:g} %{latency}, answered < {100 * self.achieved_share:g} % of the rate"


@dataclass(frozen=True, slots=True)
class SearchTrial:
    value: float  # the rate or the count of the trial
    figures: RunStatistics
    why: str  # why it fails, "" if it passes


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a capacity search."""

    highest: float | None  # value that passed; None if none did
    figures: RunStatistics | None  # at the highest value
    ending: Ending  # a failed trial, top or bottom of the range, the generator's limit, or too many trials
    why: str  # why the trial above it failed, "" if none did
    trials: tuple[SearchTrial, ...]


@dataclass(slots=True)
class _CapacitySearch:
    attempt: Attempt[float]
    judge: Callable[[float, RunStatistics], str]
    accuracy: float
    is_whole: bool = False  # try whole numbers only
    trials: list[SearchTrial] = field(default_factory=list)
    generator: str = ""  # why the load generator was the limit
    doubted: bool = False  # a value that passed once failed later

    @property
    def spent(self) -> bool:
        return len(self.trials) >= MAX_TRIALS

    def decide(self, value: float) -> SearchTrial:
        """Run up to three trials at ``value``, and return a trial that agrees with the majority.

        If the first trial passes, the method returns it without running another. If ``doubted`` is set, the method
        always runs at least two trials. If the load generator is the bottleneck in a trial, the method returns that
        trial immediately.
        """
        failed: list[SearchTrial] = []
        passed: list[SearchTrial] = []
        while len(failed) < 2 and len(passed) < (2 if failed or self.doubted else 1) and not self.spent:
            figures = self.attempt(value)
            trial = SearchTrial(value, figures, self.judge(value, figures))
            self.trials.append(trial)
            if trial.why and figures.saturated:
                self.generator = figures.saturated
                return trial
            (failed if trial.why else passed).append(trial)
        return passed[-1] if len(passed) > len(failed) else failed[-1]

    def between(self, good: float, bad: float) -> float | None:
        """Return the next value to try between ``good`` and ``bad``, or None if they differ by less than the
        accuracy."""
        middle = (good + bad) / 2
        if self.is_whole:
            middle = float(int(middle))
        return middle if bad - good > self.accuracy * good and middle > good else None

    def double(self, value: float, high: float, passed: list[SearchTrial]) -> SearchTrial | None:
        """Double ``value`` until a trial fails or ``value`` reaches ``high``.

        Append passing trials to ``passed``. Return the failed trial, or None if no trial failed.
        """
        while not (trial := self.decide(value)).why:
            passed.append(trial)
            if value >= high or self.spent:
                return None
            value = min(high, 2 * value)
        return trial

    def run(self, low: float, high: float) -> SearchResult:
        """Run the search from ``low`` to ``high``. Raises ValueError if the range or the accuracy is invalid."""
        if not 0 < low <= high < float("inf"):
            raise ValueError(f"the range must start above 0 and end at a finite value, but is {low:g} to {high:g}")
        if not 0.001 <= self.accuracy <= 1:
            raise ValueError(f"the accuracy must be between 0.001 and 1, not {self.accuracy:g}")
        passed: list[SearchTrial] = []  # ascending
        failed = self.double(low, high, passed)
        while not self.generator and not self.spent:
            middle = self.between(passed[-1].value, failed.value) if passed and failed else None
            if middle is not None:
                trial = self.decide(middle)
                if trial.why:
                    failed = trial
                else:
                    passed.append(trial)
                continue
            if not passed:
                return self.result(None, failed, "bottom")
            edge = self.decide(passed[-1].value)  # the highest value must pass once more
            if not edge.why:
                return self.result(edge, failed, "criteria" if failed else "top")
            failed = edge
            self.doubted = True
            passed.pop()
        return self.result(passed[-1] if passed else None, failed, "trials")

    def result(self, good: SearchTrial | None, bad: SearchTrial | None, ending: Ending) -> SearchResult:
        if self.generator:
            ending = "generator"
        elif self.spent:
            ending = "trials"
        why = self.generator or (bad.why if bad else "")
        return SearchResult(
            good.value if good else None, good.figures if good else None, ending, why, tuple(self.trials)
        )


def highest_rate(
    try_rate: Attempt[float], criteria: FailureCriteria, low: float, high: float, accuracy: float = ACCURACY
) -> SearchResult:
    """Search for the highest rate from ``low`` to ``high`` (in requests/s) at which a trial passes.

    ``accuracy`` is a fraction of the result. Raises ValueError if the range or the accuracy is invalid.
    """
    return _CapacitySearch(try_rate, lambda rate, figures: criteria.failing(figures, rate), accuracy).run(low, high)


def highest_count(
    try_count: Attempt[int], criteria: FailureCriteria, rate: float, low: int, high: int, accuracy: float = ACCURACY
) -> SearchResult:
    """Search for the highest number of connections or clients with which a trial passes at ``rate`` requests/s.

    If ``rate`` is 0, trials run without a fixed rate. Raises ValueError if the range or the accuracy is invalid.
    """
    search = _CapacitySearch(
        lambda count: try_count(int(count)), lambda _, figures: criteria.failing(figures, rate), accuracy, is_whole=True
    )
    return search.run(low, high)


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One point of a frontier: the highest rate found for a number of connections."""

    connections: int
    found: SearchResult


def frontier(
    try_point: Callable[[int, float], RunStatistics],
    criteria: FailureCriteria,
    counts: Sequence[int],
    low: float,
    high: float,
    accuracy: float = ACCURACY,
) -> tuple[FrontierPoint, ...]:
    """Search for the highest rate at each number of connections. ``try_point(connections, rate)`` runs one trial.

    Raises ValueError if the range or the accuracy is invalid.
    """
    return tuple(
        FrontierPoint(count, highest_rate(partial(try_point, count), criteria, low, high, accuracy)) for count in counts
    )
