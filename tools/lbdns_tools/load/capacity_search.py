"""Search for the highest load that a server can handle: double until a trial fails, then bisect. Sans-I/O.

A trial that passes is not repeated. A trial that fails is repeated up to twice and the majority counts, because a
single hiccup is not a limit. The result must pass once more; otherwise the search continues below it and repeats all
further trials. If the load generator itself is the limit, the search ends and says so, since the server's limit stays
unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from lbdns_tools.load.run_statistics import RunStatistics

Ending = Literal["criteria", "top", "bottom", "generator", "trials"]

PERCENTILES: Final = (50, 90, 95, 99)  # those in RunStatistics
MAX_TRIALS: Final = 60  # per search: an hour if each takes 60 s


@dataclass(frozen=True, slots=True)
class FailureCriteria:
    """When a trial fails. A latency limit of 0 s accepts any latency. Raises ValueError for invalid values."""

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
            raise ValueError(f"the achieved share must be between 0 and 1, not {self.achieved_share:g}")
        if self.limit_s < 0:
            raise ValueError(f"the latency limit must be 0 s or more, not {self.limit_s:g}")

    def failing(self, figures: RunStatistics, rate: float) -> str:
        """Return why a trial at ``rate`` requests/s (0: as fast as possible) fails, or "" if it passes."""
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
    ending: Ending  # a failure above it, top or bottom of the range, the generator's limit, too many trials
    why: str  # why the trial above it failed, "" if none did
    trials: tuple[SearchTrial, ...]


@dataclass(slots=True)
class _CapacitySearch:
    attempt: Callable[[float], RunStatistics]
    judge: Callable[[float, RunStatistics], str]
    trials: list[SearchTrial] = field(default_factory=list)
    generator: str = ""  # why the load generator was the limit
    doubted: bool = False  # a value that passed once failed later

    def once(self, value: float) -> SearchTrial:
        figures = self.attempt(value)
        trial = SearchTrial(value, figures, self.judge(value, figures))
        self.trials.append(trial)
        if trial.why and figures.saturated:
            self.generator = figures.saturated
        return trial

    def holds(self, value: float) -> SearchTrial:
        """Return a deciding trial: the first if it passes and nothing is doubted, else one of the majority of three."""
        failed: list[SearchTrial] = []
        held: list[SearchTrial] = []
        while len(failed) < 2 and len(held) < (2 if failed or self.doubted else 1) and not self.spent:
            trial = self.once(value)
            if self.generator:
                return trial
            (failed if trial.why else held).append(trial)
        return held[-1] if len(held) > len(failed) else failed[-1]

    @property
    def spent(self) -> bool:
        return len(self.trials) >= MAX_TRIALS

    def found(self, good: SearchTrial | None, bad: SearchTrial | None, ending: Ending) -> SearchResult:
        if self.generator:
            ending = "generator"
        elif self.spent:
            ending = "trials"
        return SearchResult(
            highest=good.value if good else None,
            figures=good.figures if good else None,
            ending=ending,
            why=self.generator or (bad.why if bad else ""),
            trials=tuple(self.trials),
        )


def highest_rate(
    try_rate: Callable[[float], RunStatistics],
    criteria: FailureCriteria,
    low: float,
    high: float,
    accuracy: float = 0.05,
) -> SearchResult:
    """Search for the highest rate between ``low`` and ``high`` (requests/s) that passes, within ``accuracy`` (a share).

    Raises ValueError if the range or the accuracy is invalid.
    """
    _check(low, high, accuracy)
    search = _CapacitySearch(try_rate, lambda rate, figures: criteria.failing(figures, rate))
    return _highest(search, low, high, lambda good, bad: _between(good, bad, accuracy))


def highest_count(
    try_count: Callable[[int], RunStatistics],
    criteria: FailureCriteria,
    rate: float,
    low: int,
    high: int,
    accuracy: float = 0.05,
) -> SearchResult:
    """Search for the highest number of connections or clients that passes at ``rate`` requests/s (0: no rate).

    Raises ValueError if the range or the accuracy is invalid.
    """
    _check(low, high, accuracy)
    search = _CapacitySearch(
        lambda count: try_count(int(count)), lambda count, figures: criteria.failing(figures, rate)
    )

    def between(good: float, bad: float) -> float | None:
        middle = _between(good, bad, accuracy)
        return None if middle is None or int(middle) <= good else float(int(middle))

    return _highest(search, low, high, between)


def _check(low: float, high: float, accuracy: float) -> None:
    if not 0 < low <= high < float("inf"):
        raise ValueError(f"the range must start above 0 and end at a finite value, not {low:g} to {high:g}")
    if not 0.001 <= accuracy <= 1:
        raise ValueError(f"the accuracy must be between 0.001 and 1, not {accuracy:g}")


def _between(good: float, bad: float, accuracy: float) -> float | None:
    """Return the next value to try, or None if the two are close enough."""
    return None if bad - good <= accuracy * good else (good + bad) / 2


def _highest(
    search: _CapacitySearch, low: float, high: float, between: Callable[[float, float], float | None]
) -> SearchResult:
    held: list[SearchTrial] = []  # ascending
    bad: SearchTrial | None = None
    value = low
    while bad is None:  # up, by doubling
        trial = search.holds(value)
        if trial.why:
            bad = trial
        else:
            held.append(trial)
            if value >= high or search.spent:
                break
            value = min(high, 2 * value)
    while not search.generator and not search.spent:
        middle = between(held[-1].value, bad.value) if held and bad else None
        if middle is not None:
            trial = search.holds(middle)
            if trial.why:
                bad = trial
            else:
                held.append(trial)
            continue
        if not held:
            return search.found(None, bad, "bottom")
        edge = search.holds(held[-1].value)  # it must pass once more
        if not edge.why:
            return search.found(edge, bad, "criteria" if bad else "top")
        bad = edge
        search.doubted = True
        held.pop()
    return search.found(held[-1] if held else None, bad, "trials")


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One point of a frontier: the highest rate at this number of connections."""

    connections: int
    found: SearchResult


def frontier(
    try_point: Callable[[int, float], RunStatistics],
    criteria: FailureCriteria,
    counts: Sequence[int],
    low: float,
    high: float,
    accuracy: float = 0.05,
) -> tuple[FrontierPoint, ...]:
    """Search for the highest rate at each number of connections, on which that rate depends.

    ``try_point(connections, rate)`` runs a trial. Raises ValueError if the range or the accuracy is invalid.
    """
    return tuple(
        FrontierPoint(count, highest_rate(partial(try_point, count), criteria, low, high, accuracy)) for count in counts
    )
