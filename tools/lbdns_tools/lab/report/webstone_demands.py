"""The requirements for ``best`` in the study ``webstone``. Each has a value (often a ratio to ``round_robin``), a bound
and a verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report import ratio_scatter
from lbdns_tools.lab.report.outcome_index import OutcomeIndex, PointKey, mean_cpu, mean_of_known, quotient, total_cpu

#: Throughput counts successful requests only: failing fast must not count
THROUGHPUT: Final = "requests_per_s"
#: The figure behind each ratio of a comparison
_FIGURES: Final = {"throughput": THROUGHPUT, "p95": "p95_s", "mean": "mean_s"}
AGENT_CPU_PERCENT: Final = 1.0  # of a core, at most


@dataclass(frozen=True, slots=True)
class SelectionRatios:
    """The ratios of one selection's figures to another's at the same point. If a result is missing, the ratio is None.

    ``throughput`` is the product of ``work`` and ``pace``. ``work`` is the ratio of the hosts' CPU times, which depends
    on the selection. ``pace`` is the ratio of the hosts' requests per CPU second, which depends on the machine. How
    much ``pace`` varies shows how much throughput varies by chance. ``repeated`` contains three ratios for each
    repetition: throughput, p95 and mean latency.
    """

    key: PointKey  # the point of the numerators
    throughput: float | None
    p95: float | None
    mean: float | None
    work: float | None
    pace: float | None
    repeated: Mapping[str, ratio_scatter.Ratios] = field(default_factory=dict)


def compare(found: OutcomeIndex, selection: str, other: str, hosts: Sequence[str]) -> list[SelectionRatios]:
    """Return the ratios for all points at which both selections were measured, in the order of measurement."""
    compared = []
    for key in found.keys:
        against = key._replace(selection=other)
        if key.selection == selection and found.at(against):
            throughput, p95, latency = (found.ratio(key, against, figure) for figure in _FIGURES.values())
            work = quotient(work_percent(found, key, hosts), work_percent(found, against, hosts))
            repeated = {ratio: found.ratios(key, against, figure) for ratio, figure in _FIGURES.items()}
            compared.append(SelectionRatios(key, throughput, p95, latency, work, quotient(throughput, work), repeated))
    return compared


def work_percent(found: OutcomeIndex, key: PointKey, hosts: Sequence[str]) -> float | None:
    """Return the total CPU use of ``hosts`` at a point, as a percentage of one core, or None if a host was not
    sampled."""
    return total_cpu(mean_cpu(found.at(key), [host]) for host in hosts) if hosts else None


def alone(outcomes: Iterable[MeasuredOutcome], farm: str, workload: str) -> dict[str, dict[int, float]]:
    """Return the throughput of each host that was measured alone, keyed by host and number of clients."""
    values: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for outcome in outcomes:
        case, row = outcome.case, outcome.row
        if case.selection in ("single", "alone") and (case.farm, case.workload) == (farm, workload):
            throughput = row.figures.number(THROUGHPUT)
            if throughput is not None and row.point.clients is not None:
                values[str(case.more["host"])][row.point.clients].append(throughput)
    return {host: {clients: fmean(found) for clients, found in of.items()} for host, of in values.items()}


def sum_alone(by_host: dict[str, dict[int, float]], hosts: Sequence[str], clients: int) -> float | None:
    """Add up the throughputs that the hosts reached alone, each measured with about ``clients`` clients. Return None if
    a host's throughput is missing."""
    if not hosts or any(host not in by_host for host in hosts):
        return None
    # The nearest number of clients suffices, because a busy host hardly serves more requests with more clients
    nearest = (min(by_host[host], key=lambda count: abs(count - clients)) for host in hosts)
    return sum(by_host[host][count] for host, count in zip(hosts, nearest, strict=True))


#: The verdicts, in the order in which the report counts them
VERDICTS: Final = ("met", "within chance", "not met", "not measured")
#: Words for how often clients resolve
WORDS: Final = {
    "connection": "per connection", "webstone": "at WebStone's intervals", "1999": "at the intervals of 1999",
}  # fmt: skip
Extreme = Callable[[list[float]], float]
_EXTREMES: Final[Mapping[Extreme, str]] = {fmean: "mean", min: "minimum", max: "maximum"}
#: The demands: farm, how often clients resolve, figure, mean or extreme over all points, bound. ``alone`` is the
#: throughput of all hosts together, relative to the sum of their throughputs alone
_DEMANDS: Final[tuple[tuple[str, str, str, Extreme, float], ...]] = (
    ("unequal", "connection", "throughput", fmean, 2.0),
    ("unequal", "connection", "throughput", min, 1.5),
    ("unequal", "connection", "p95", max, 1.0),
    ("unequal", "webstone", "throughput", min, 0.98),
    ("unequal", "webstone", "alone", min, 0.95),
    ("unequal", "webstone", "p95", fmean, 0.8),
    ("equal", "connection", "throughput", min, 0.98),
    ("equal", "connection", "mean", max, 1.05),
    ("equal", "webstone", "throughput", min, 0.98),
    ("equal", "webstone", "mean", max, 1.05),
)
_FIGURE_WORDS: Final = {
    "throughput": "throughput of 'best' / 'round_robin'", "p95": "p95 of 'best' / 'round_robin'",
    "mean": "mean latency of 'best' / 'round_robin'", "alone": "throughput of 'best' / sum of single hosts",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StudyDemand:
    """A requirement.

    If ``at_least`` is set, ``value`` must be at least ``bound``. Otherwise, ``value`` must be at most ``bound``, or
    less than ``bound`` if ``strictly`` is set.

    ``points`` is the number of points with a result, and ``mean`` is the mean over all such points. If ``value`` is the
    lowest or highest value of all points, ``by_chance`` is the range in which such an extreme value would lie by chance
    alone. If that range is unknown, ``by_chance`` is None.
    """

    what: str
    value: float | None
    bound: float
    at_least: bool
    points: int
    strictly: bool = False
    mean: float | None = None
    by_chance: ratio_scatter.ChanceRange | None = None

    def _meets(self, value: float) -> bool:
        if self.at_least:
            return value >= self.bound
        return value < self.bound if self.strictly else value <= self.bound

    @property
    def wanted(self) -> str:
        at_most = "below" if self.strictly else "at most"
        return f"{'at least' if self.at_least else at_most} {self.bound:g}"

    @property
    def verdict(self) -> str:
        """The verdict, which is one of VERDICTS.

        The verdict is "within chance" if three conditions hold: ``mean`` meets the bound, ``value`` does not, and
        ``value`` is within the range ``by_chance``.
        """
        met, within_chance, not_met, not_measured = VERDICTS
        if self.value is None:
            return not_measured
        if self._meets(self.value):
            return met
        if self.mean is None or self.by_chance is None or not self._meets(self.mean):
            return not_met
        further = self.value < self.by_chance.low if self.at_least else self.value > self.by_chance.high
        return not_met if further else within_chance


def demands(outcomes: Sequence[MeasuredOutcome], hosts: Sequence[str]) -> list[StudyDemand]:
    """Return all requirements, including those that were not measured. ``hosts`` are the web hosts of the unequal
    farm."""
    compared = compare(OutcomeIndex(outcomes), "best", "round_robin", hosts)
    by_repetition: dict[int, list[MeasuredOutcome]] = defaultdict(list)
    for outcome in outcomes:
        by_repetition[outcome.row.repetition].append(outcome)
    judged = []
    for farm, resolve, figure, of, bound in _DEMANDS:
        points = [each for each in compared if (each.key.farm, each.key.resolve) == (farm, resolve)]
        if figure == "alone":
            values = _sums(outcomes, points, hosts)
            repeated = [[r for some in by_repetition.values() for r in _sums(some, [each], hosts)] for each in points]
        else:
            points = [each for each in points if getattr(each, figure) is not None]
            values = [getattr(each, figure) for each in points]
            repeated = [list(each.repeated.get(figure, ())) for each in points]
        what = f"{farm} hosts, lookups {WORDS[resolve]}: {_FIGURE_WORDS[figure]}, {_EXTREMES[of]}"
        judged.append(_judge(what, values, repeated, of, bound, figure))
    return [*judged, agents_demand(outcomes)]


def _judge(
    what: str, values: list[float], repeated: Sequence[ratio_scatter.Ratios], of: Extreme, bound: float, figure: str
) -> StudyDemand:
    at_least, strictly = figure in ("throughput", "alone"), (figure, of) == ("p95", max)
    if not values:
        return StudyDemand(what, None, bound, at_least, 0, strictly)
    by_chance = ratio_scatter.extreme(repeated, of) if of is not fmean else None
    return StudyDemand(what, of(values), bound, at_least, len(values), strictly, fmean(values), by_chance)


def _sums(outcomes: Sequence[MeasuredOutcome], points: Iterable[SelectionRatios], hosts: Sequence[str]) -> list[float]:
    return [value for each in points if (value := of_the_sum(outcomes, each.key, hosts)) is not None]


def of_the_sum(outcomes: Sequence[MeasuredOutcome], key: PointKey, hosts: Sequence[str]) -> float | None:
    """Return the ratio of the throughput at a point to the sum of the throughputs of the single hosts."""
    whole = sum_alone(alone(outcomes, key.farm, key.workload), hosts, key.clients)
    return quotient(OutcomeIndex(outcomes).figure(key, THROUGHPUT), whole)


def busiest_agent(outcomes: Iterable[MeasuredOutcome]) -> float | None:
    """Return the highest mean CPU use of any agent in any run, as a percentage of one core, or None if no agent was
    sampled."""
    found = [
        cpu for outcome in outcomes for group in agents(outcome) if (cpu := outcome.cpu_percent(group)) is not None
    ]
    return max(found, default=None)


def agents(outcome: MeasuredOutcome) -> set[str]:
    """Return the names of the agents' control groups that were sampled during a measurement."""
    return {group for sample in outcome.samples for group in sample.cpu if group.endswith("-agent")}


def agents_demand(outcomes: Sequence[MeasuredOutcome]) -> StudyDemand:
    """Return the requirement on the agents' CPU use, which limits every agent in every run."""
    read = [outcome for outcome in outcomes if agents(outcome)]
    what = "highest mean CPU use of any agent in any run, as a percentage of one core"
    return StudyDemand(what, busiest_agent(read), AGENT_CPU_PERCENT, False, len(read))


def agents_mean(outcomes: Iterable[MeasuredOutcome]) -> float | None:
    """Return the mean CPU use of all agents in all runs, as a percentage of one core, or None if no agent was
    sampled."""
    return mean_of_known(outcome.cpu_percent(group) for outcome in outcomes for group in agents(outcome))


def verdict(found: OutcomeIndex, key: PointKey, other: str, floor: str) -> str:
    """Return "wins", "herds" or "between" as the verdict on the selection at ``key``, or "" if there is no result.

    The verdict is "wins" if both throughput and p95 are better than with ``other``. Otherwise, the verdict is "herds"
    if either figure is worse than with ``floor``. ``floor`` names a selection that ignores load.
    """
    over, above = (
        [found.ratio(key, key._replace(selection=selection), figure) for figure in (THROUGHPUT, "p95_s")]
        for selection in (other, floor)
    )
    if None in above:
        return ""
    if None not in over and (over[0] or 0.0) > 1.0 and (over[1] or 0.0) < 1.0:
        return "wins"
    return "herds" if (above[0] or 0.0) < 1.0 or (above[1] or 0.0) > 1.0 else "between"
