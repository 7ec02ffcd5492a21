"""Groups a study's outcomes by part, selection or point, and calculates means and ratios over repetitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome


class PointKey(NamedTuple):
    """The values that identify a point of a study. All repetitions of a point share the same key."""

    farm: str
    selection: str
    workload: str
    resolve: str
    clients: int


class OutcomeIndex:
    """An index of outcomes by point.

    A figure is the mean over all repetitions that have a result, or None if no repetition has a result.
    """

    def __init__(self, outcomes: Iterable[MeasuredOutcome]) -> None:
        self._by_key: dict[PointKey, list[MeasuredOutcome]] = defaultdict(list)
        for outcome in outcomes:
            case, clients = outcome.case, outcome.row.point.clients
            if clients is not None:
                key = PointKey(case.farm, case.selection, case.workload, case.resolve, clients)
                self._by_key[key].append(outcome)

    @property
    def keys(self) -> list[PointKey]:
        return list(self._by_key)

    def at(self, key: PointKey) -> list[MeasuredOutcome]:
        return self._by_key.get(key, [])

    def figure(self, key: PointKey, name: str) -> float | None:
        return mean_of(self.at(key), name)

    def share(self, key: PointKey, host: str) -> float | None:
        """Return the share of requests at a point that ``host`` served, from 0 to 1, or None if unknown."""
        return mean_of_known(o.row.figures.shares.get(host, 0.0) for o in self.at(key) if o.row.figures.shares)

    def ratio(self, key: PointKey, other: PointKey, name: str) -> float | None:
        """Return the ratio of a figure at ``key`` to the same figure at ``other``, or None if it is undefined."""
        return quotient(self.figure(key, name), self.figure(other, name))

    def ratios(self, key: PointKey, other: PointKey, name: str) -> tuple[float, ...]:
        """Return the ratios of a figure at ``key`` to the same figure at ``other``, one for each repetition in which
        both were measured.
        """
        mine, theirs = self._repeated(key, name), self._repeated(other, name)
        found = (quotient(mine[number], theirs[number]) for number in mine if number in theirs)
        return tuple(ratio for ratio in found if ratio is not None)

    def _repeated(self, key: PointKey, name: str) -> dict[int, float | None]:
        return {outcome.row.repetition: outcome.row.figures.number(name) for outcome in self.at(key)}


def part(outcomes: Iterable[MeasuredOutcome], name: str) -> list[MeasuredOutcome]:
    """Return the outcomes that belong to the part ``name`` of a study."""
    return [outcome for outcome in outcomes if outcome.case.more.get("part") == name]


def by_selection(outcomes: Iterable[MeasuredOutcome]) -> dict[str, list[MeasuredOutcome]]:
    """Return the outcomes keyed by selection, in the order in which the selections were first measured."""
    found: dict[str, list[MeasuredOutcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.case.selection, []).append(outcome)
    return found


def mean_of(outcomes: Iterable[MeasuredOutcome], name: str) -> float | None:
    """Return the mean of a figure over all outcomes that contain it, or None if no outcome does.

    For a name that ends in ``_ms``, such as ``mean_ms``, the function averages the figure in seconds (``mean_s``) and
    converts the result to ms.
    """
    seconds = name.removesuffix("_ms")
    if seconds != name:
        return scaled(mean_of(outcomes, f"{seconds}_s"), 1000.0)
    return mean_of_known(outcome.row.figures.number(name) for outcome in outcomes)


def means(outcomes: Sequence[MeasuredOutcome], *names: str) -> list[float | None]:
    return [mean_of(outcomes, name) for name in names]


def mean_cpu(outcomes: Iterable[MeasuredOutcome], groups: Sequence[str]) -> float | None:
    """Return the combined CPU use of ``groups``, averaged over the outcomes, as a percentage of one core.

    Outcomes in which a group was not sampled are ignored. If no outcome remains, the result is None.
    """
    return mean_of_known(total_cpu(outcome.cpu_percent(group) for group in groups) for outcome in outcomes)


def total_cpu(percents: Iterable[float | None]) -> float | None:
    """Return the sum of ``percents``, or None if any of them is None."""
    read = list(percents)
    known = [percent for percent in read if percent is not None]
    return sum(known) if len(known) == len(read) else None


def most_memory(outcomes: Iterable[MeasuredOutcome], group: str) -> float | None:
    """Return a control group's peak memory use in MB, or None if it was never sampled."""
    read = [memory for outcome in outcomes if (memory := outcome.memory_bytes(group)) is not None]
    return max(read) / 1e6 if read else None


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None, or None if all values are None."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else factor * value


def ms_per_request(outcomes: Sequence[MeasuredOutcome], group: str) -> float | None:
    """Return the CPU time, in ms, that a control group used per successful request."""
    return ms_per_request_of(outcomes, [group])


def ms_per_request_of(outcomes: Sequence[MeasuredOutcome], groups: Sequence[str]) -> float | None:
    """Return the CPU time, in ms, that several control groups together used per successful request."""
    # 1 % of a core is 10 ms of CPU time per second
    return scaled(quotient(mean_cpu(outcomes, groups), mean_of(outcomes, "requests_per_s")), 10.0)


def quotient(value: float | None, other: float | None) -> float | None:
    """Return ``value / other``, or None if either value is None or ``other`` is 0."""
    return value / other if value is not None and other else None
