"""The highest load that is still carried: doubled until it isn't, then halved in. Drives a callable. Pure.

Rules. A trial that holds is taken at its word, one that fails is tried twice more and the majority counts, as one
hiccup is no limit. What is found in the end has to hold once more, or the search goes on below it and takes nothing
at its word any more. When the generator itself was the limit the search ends there, and says so: the server's limit is
not known then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from lbdns_tools.load.figures import Figures

Ending = Literal["criteria", "top", "bottom", "generator", "trials"]

PERCENTILES: Final = (50, 90, 95, 99)  # those that Figures have
MAX_TRIALS: Final = 60  # of one search: with 60 s each that is an hour


@dataclass(frozen=True, slots=True)
class Criteria:
    """What failing is. 0 of a limit in seconds: any latency will do. Raises ValueError."""

    error_percent: float = 1.0  # more than that fails
    percentile: int = 99
    limit_s: float = 0.0  # that percentile of the latency may reach
    achieved_share: float = 0.95  # of the rate asked for has to be answered well

    def __post_init__(self) -> None:
        if self.percentile not in PERCENTILES:
            raise ValueError(f"the percentile is one of {', '.join(map(str, PERCENTILES))}, not {self.percentile}")
        if not 0 <= self.error_percent <= 100:
            raise ValueError(f"the share of errors is from 0 to 100 %, not {self.error_percent:g}")
        if not 0 <= self.achieved_share <= 1:
            raise ValueError(f"the achieved share is from 0 to 1, not {self.achieved_share:g}")
        if self.limit_s < 0:
            raise ValueError(f"the limit of the latency is 0 s or more, not {self.limit_s:g}")

    def failing(self, figures: Figures, rate: float) -> str:
        """Why this isn't carried at ``rate`` requests/s (0: as fast as it goes), "" if it is."""
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
class Trial:
    value: float  # the rate or the number that was tried
    figures: Figures
    why: str  # it fails, "" if it holds


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to."""

    highest: float | None  # that held; None if nothing did: no result
    figures: Figures | None  # there
    ending: Ending  # what it ended at: failing above, top or bottom of the range, our own limit, too many trials
    why: str  # what failed above, "" if nothing did
    trials: tuple[Trial, ...]


@dataclass(slots=True)
class _Search:
    attempt: Callable[[float], Figures]
    judge: Callable[[float, Figures], str]
    trials: list[Trial] = field(default_factory=list)
    generator: str = ""  # why our own limit was reached
    doubted: bool = False  # something that held once didn't again

    def once(self, value: float) -> Trial:
        figures = self.attempt(value)
        trial = Trial(value, figures, self.judge(value, figures))
        self.trials.append(trial)
        if trial.why and figures.saturated:
            self.generator = figures.saturated
        return trial

    def holds(self, value: float) -> Trial:
        """The majority of three, or the first if that holds and isn't doubted, or what showed our own limit."""
        failed: list[Trial] = []
        held: list[Trial] = []
        while len(failed) < 2 and len(held) < (2 if failed or self.doubted else 1) and not self.spent:
            trial = self.once(value)
            if self.generator:
                return trial
            (failed if trial.why else held).append(trial)
        return held[-1] if len(held) > len(failed) else failed[-1]

    @property
    def spent(self) -> bool:
        return len(self.trials) >= MAX_TRIALS

    def found(self, good: Trial | None, bad: Trial | None, ending: Ending) -> Found:
        if self.generator:
            ending = "generator"
        elif self.spent:
            ending = "trials"
        return Found(
            highest=good.value if good else None,
            figures=good.figures if good else None,
            ending=ending,
            why=self.generator or (bad.why if bad else ""),
            trials=tuple(self.trials),
        )


def highest_rate(
    try_rate: Callable[[float], Figures], criteria: Criteria, low: float, high: float, accuracy: float = 0.05
) -> Found:
    """The highest rate from ``low`` to ``high``, requests/s, that ``try_rate`` carries, to a share of ``accuracy``.

    Raises ValueError for a range or an accuracy that can't be searched.
    """
    _check(low, high, accuracy)
    search = _Search(try_rate, lambda rate, figures: criteria.failing(figures, rate))
    return _highest(search, low, high, lambda good, bad: _between(good, bad, accuracy))


def highest_count(
    try_count: Callable[[int], Figures],
    criteria: Criteria,
    rate: float,
    low: int,
    high: int,
    accuracy: float = 0.05,
) -> Found:
    """The highest number of connections (or clients) that is carried at ``rate`` requests/s (0: no rate is asked for).

    Raises ValueError for a range or an accuracy that can't be searched.
    """
    _check(low, high, accuracy)
    search = _Search(lambda count: try_count(int(count)), lambda count, figures: criteria.failing(figures, rate))

    def between(good: float, bad: float) -> float | None:
        middle = _between(good, bad, accuracy)
        return None if middle is None or int(middle) <= good else float(int(middle))

    return _highest(search, low, high, between)


def _check(low: float, high: float, accuracy: float) -> None:
    if not 0 < low <= high < float("inf"):
        raise ValueError(f"a search goes from more than 0 up to something finite, not from {low:g} to {high:g}")
    if not 0.001 <= accuracy <= 1:
        raise ValueError(f"the accuracy is a share from 0.001 to 1, not {accuracy:g}")


def _between(good: float, bad: float, accuracy: float) -> float | None:
    """The next to try, None if the two are near enough."""
    return None if bad - good <= accuracy * good else (good + bad) / 2


def _highest(search: _Search, low: float, high: float, between: Callable[[float, float], float | None]) -> Found:
    held: list[Trial] = []  # ascending
    bad: Trial | None = None
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
        edge = search.holds(held[-1].value)  # it has to hold once more
        if not edge.why:
            return search.found(edge, bad, "criteria" if bad else "top")
        bad = edge
        search.doubted = True
        held.pop()
    return search.found(held[-1] if held else None, bad, "trials")


@dataclass(frozen=True, slots=True)
class Edge:
    """One point of a frontier: the highest rate at this number of connections."""

    connections: int
    found: Found


def frontier(
    try_point: Callable[[int, float], Figures],
    criteria: Criteria,
    counts: Sequence[int],
    low: float,
    high: float,
    accuracy: float = 0.05,
) -> tuple[Edge, ...]:
    """The highest rate at each number of connections, as "the highest rate" means nothing without that number.

    ``try_point(connections, rate)``. Raises ValueError for a range or an accuracy that can't be searched.
    """
    return tuple(
        Edge(count, highest_rate(partial(try_point, count), criteria, low, high, accuracy)) for count in counts
    )
