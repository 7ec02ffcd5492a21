"""What choosing by load has to show against round robin, and whether it did: ratios at each point, demands. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.presets import chance
from lbdns_tools.lab.presets.points import Found, Key, mean, quotient

#: Throughput is that of requests that went well: failing fast is none
THROUGHPUT: Final = "requests_per_s"
#: Ratios of a comparison by the figures that they are of
_FIGURES: Final = {"throughput": THROUGHPUT, "p95": "p95_s", "mean": "mean_s"}
AGENT_CPU_PERCENT: Final = 1.0  # of a core, at most


@dataclass(frozen=True, slots=True)
class Compared:
    """One selection against another at one point, as ratios. None where either has no result.

    ``throughput`` is ``work`` times ``pace``. A choice can change the work, the CPU time that the hosts' programs used;
    the pace, requests a CPU second, is the machine's, and tells how far throughputs scatter by themselves.
    ``repeated`` has the ratios of throughput, p95 and mean of each repetition.
    """

    key: Key  # of the one
    throughput: float | None
    p95: float | None
    mean: float | None
    work: float | None
    pace: float | None
    repeated: Mapping[str, chance.Ratios] = field(default_factory=dict)


def compare(found: Found, selection: str, other: str, hosts: Sequence[str]) -> list[Compared]:
    """At all points at which both were measured, in the order in which they were."""
    compared = []
    for key in found.keys:
        against = key._replace(selection=other)
        if key.selection == selection and found.at(against):
            throughput, p95, latency = (found.ratio(key, against, figure) for figure in _FIGURES.values())
            work = quotient(work_percent(found, key, hosts), work_percent(found, against, hosts))
            repeated = {ratio: found.ratios(key, against, figure) for ratio, figure in _FIGURES.items()}
            compared.append(Compared(key, throughput, p95, latency, work, quotient(throughput, work), repeated))
    return compared


def work_percent(found: Found, key: Key, hosts: Sequence[str]) -> float | None:
    """CPU of all hosts together, % of one core; None if one's was never read."""
    read = [cpu for host in hosts if (cpu := found.cpu_percent(key, host)) is not None]
    return sum(read) if hosts and len(read) == len(hosts) else None


def alone(outcomes: Iterable[Outcome], farm: str, workload: str) -> dict[str, dict[int, float]]:
    """Host -> clients -> throughput of that host by itself."""
    values: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for outcome in outcomes:
        case, row = outcome.case, outcome.row
        if case.selection in ("single", "alone") and (case.farm, case.workload) == (farm, workload):
            throughput = row.figures.number(THROUGHPUT)
            if throughput is not None and row.point.clients is not None:
                values[str(case.more["host"])][row.point.clients].append(throughput)
    return {host: {clients: fmean(found) for clients, found in of.items()} for host, of in values.items()}


def sum_alone(by_host: dict[str, dict[int, float]], hosts: Sequence[str], clients: int) -> float | None:
    """Of all hosts, each at the number of clients nearest to that: a busy host does hardly more with more of them.

    None if one of the hosts was not measured.
    """
    if not hosts or any(host not in by_host for host in hosts):
        return None
    nearest = (min(by_host[host], key=lambda count: abs(count - clients)) for host in hosts)
    return sum(by_host[host][count] for host, count in zip(hosts, nearest, strict=True))


#: In the order in which they are counted
VERDICTS: Final = ("met", "within chance", "not met", "not measured")


@dataclass(frozen=True, slots=True)
class Demand:
    """``value`` is to be at least, or at most ``bound``; ``strictly``: below it. ``points`` of them have a result.

    Of an extreme ``mean`` is the points' mean, and ``by_chance`` where it would be if that were the true value of all;
    None if that is not known.
    """

    what: str
    value: float | None
    bound: float
    at_least: bool
    points: int
    strictly: bool = False
    mean: float | None = None
    by_chance: chance.Range | None = None

    @property
    def met(self) -> bool | None:
        """None if nothing was measured."""
        return None if self.value is None else self._meets(self.value)

    def _meets(self, value: float) -> bool:
        if self.at_least:
            return value >= self.bound
        return value < self.bound if self.strictly else value <= self.bound

    @property
    def within_chance(self) -> bool:
        """An extreme that does not meet the bound, where the mean does, and that is no further out than by chance."""
        if self.met is not False or self.value is None or self.mean is None or self.by_chance is None:
            return False
        further = self.value < self.by_chance.low if self.at_least else self.value > self.by_chance.high
        return self._meets(self.mean) and not further

    @property
    def wanted(self) -> str:
        return f"{'at least' if self.at_least else 'below' if self.strictly else 'at most'} {self.bound:g}"

    @property
    def verdict(self) -> str:
        met, within_chance, not_met, not_measured = VERDICTS
        if self.met is None:
            return not_measured
        return met if self.met else within_chance if self.within_chance else not_met


def demands(outcomes: Sequence[Outcome], hosts: Sequence[str]) -> list[Demand]:
    """All of them, also those that nothing was measured for. ``hosts`` are the names of the unequal farm's."""
    compared = compare(Found(outcomes), "best", "round_robin", hosts)

    def at(farm: str, resolve: str) -> list[Compared]:
        return [each for each in compared if (each.key.farm, each.key.resolve) == (farm, resolve)]

    judged = [*_unequal(at("unequal", "connection"), at("unequal", "webstone"), outcomes, hosts)]
    for resolve in ("connection", "webstone"):
        where, points = f"equal hosts, a choice {WORDS[resolve]}", at("equal", resolve)
        judged += [
            _demand(f"{where}: throughput, best / round robin, the least", points, "throughput", min, 0.98, True),
            _demand(f"{where}: mean latency, best / round robin, the most", points, "mean", max, 1.05, False),
        ]
    return [*judged, agents_demand(outcomes)]


#: How often clients resolve, in words
WORDS: Final = {"connection": "per connection", "webstone": "at WebStone's intervals"}


def _unequal(
    connection: Sequence[Compared], webstone: Sequence[Compared], outcomes: Sequence[Outcome], hosts: Sequence[str]
) -> list[Demand]:
    first = f"unequal hosts, a choice {WORDS['connection']}"
    second = f"unequal hosts, a choice {WORDS['webstone']}"
    return [
        _demand(f"{first}: throughput, best / round robin, mean", connection, "throughput", fmean, 2.0, True),
        _demand(f"{first}: throughput, best / round robin, the least", connection, "throughput", min, 1.5, True),
        _demand(f"{first}: p95, best / round robin, the most", connection, "p95", max, 1.0, False, strictly=True),
        _demand(f"{second}: throughput, best / round robin, the least", webstone, "throughput", min, 0.98, True),
        _beside_alone(f"{second}: throughput, best / hosts alone, the least", webstone, outcomes, hosts),
        _demand(f"{second}: p95, best / round robin, mean", webstone, "p95", fmean, 0.8, False),
    ]


def _demand(
    what: str,
    points: Iterable[Compared],
    figure: str,
    of: Callable[[list[float]], float],
    bound: float,
    at_least: bool,
    *,
    strictly: bool = False,
) -> Demand:
    compared = [each for each in points if getattr(each, figure) is not None]
    repeated = [each.repeated.get(figure, ()) for each in compared]
    return _judge(what, [getattr(each, figure) for each in compared], repeated, of, bound, at_least, strictly=strictly)


def _judge(
    what: str,
    values: list[float],
    repeated: Sequence[chance.Ratios],
    of: Callable[[list[float]], float],
    bound: float,
    at_least: bool,
    *,
    strictly: bool = False,
) -> Demand:
    if not values:
        return Demand(what, None, bound, at_least, 0, strictly)
    by_chance = chance.extreme(repeated, of) if of is not fmean else None
    return Demand(what, of(values), bound, at_least, len(values), strictly, fmean(values), by_chance)


def _beside_alone(what: str, points: Sequence[Compared], outcomes: Sequence[Outcome], hosts: Sequence[str]) -> Demand:
    """The throughput of all together, in parts of what each of the hosts does by itself."""
    by_repetition: dict[int, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_repetition[outcome.row.repetition].append(outcome)
    values = [value for each in points if (value := of_the_sum(outcomes, each.key, hosts)) is not None]
    repeated = [
        [value for of in by_repetition.values() if (value := of_the_sum(of, each.key, hosts)) is not None]
        for each in points
    ]
    return _judge(what, values, repeated, min, 0.95, True)


def of_the_sum(outcomes: Sequence[Outcome], key: Key, hosts: Sequence[str]) -> float | None:
    """The throughput at a point, in parts of what the hosts do by themselves."""
    whole = sum_alone(alone(outcomes, key.farm, key.workload), hosts, key.clients)
    return quotient(Found(outcomes).figure(key, THROUGHPUT), whole)


def busiest_agent(outcomes: Iterable[Outcome]) -> float | None:
    """% of a core, the mean over a run, of the agent that took most; None if none was read."""
    found = [
        cpu for outcome in outcomes for group in agents(outcome) if (cpu := outcome.cpu_percent(group)) is not None
    ]
    return max(found, default=None)


def agents(outcome: Outcome) -> set[str]:
    """The groups of agents that were read."""
    return {group for sample in outcome.samples for group in sample.cpu if group.endswith("-agent")}


def agents_demand(outcomes: Sequence[Outcome]) -> Demand:
    """In each run, whatever it measured."""
    read = [outcome for outcome in outcomes if agents(outcome)]
    what = "CPU of an agent, % of a core, the most of any run"
    return Demand(what, busiest_agent(read), AGENT_CPU_PERCENT, False, len(read))


def agents_mean(outcomes: Iterable[Outcome]) -> float | None:
    """% of a core that an agent takes, over all of them."""
    return mean(outcome.cpu_percent(group) for outcome in outcomes for group in agents(outcome))


def verdict(found: Found, key: Key, other: str, floor: str) -> str:
    """How the selection at ``key`` stands: "wins" over ``other`` in throughput and p95 alike, "herds" if it is behind
    ``floor``, which knows nothing, in either; "between" otherwise, "" without a result."""
    over, above = (
        [found.ratio(key, key._replace(selection=selection), figure) for figure in (THROUGHPUT, "p95_s")]
        for selection in (other, floor)
    )
    if None in above:
        return ""
    if None not in over and (over[0] or 0.0) > 1.0 and (over[1] or 0.0) < 1.0:
        return "wins"
    return "herds" if (above[0] or 0.0) < 1.0 or (above[1] or 0.0) > 1.0 else "between"
