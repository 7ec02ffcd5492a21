"""Defines the acceptance criteria for the policy ``best``: scenarios, figures and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from lbdns_agent.alarm_conditions import DEFAULT_CONDITIONS
from lbdns_tools.sim.simulated_dns import ORACLE
from lbdns_tools.sim.simulated_requests import WORKLOADS
from lbdns_tools.sim.simulation_scenario import (
    FARMS,
    OtherWork,
    Outage,
    Scenario,
    ServerSpec,
    SimulatedClients,
    Slowdown,
    Surge,
)

LOADS: Final = (0.5, 0.7, 0.85, 0.95)
ROUNDING: Final = 1e-9  # two policies that select alike may differ in the last digit of a mean
RR: Final = "round_robin"
WEIGHTED: Final = "weighted"
#: Servers with one core each, with speeds in proportion to the lab hosts' quotas of 0.11, 0.07 and 0.40 cores
TRUSTED: Final = 4.0  # max_speed_gain where one server is far faster than all others
UNLIKE: Final = tuple(ServerSpec(name, speed) for name, speed in (("s1", 1.1), ("s2", 0.7), ("s3", 4.0)))
FIGURES: Final = {"mean_ms": "mean", "p95_ms": "p95", "throughput_per_s": "throughput", "failed": "failures"}


@dataclass(frozen=True, slots=True)
class AcceptanceCase:
    name: str
    scenario: Scenario
    policy: str = "best"

    def by(self, policy: str) -> AcceptanceCase:
        return replace(self, policy=policy)


#: (case, name of a field of SimulationResult) -> value
FigureOf = Callable[[AcceptanceCase, str], float]


@dataclass(frozen=True, slots=True)
class AcceptanceDemand:
    """An acceptance criterion: ``figure`` must be at most (or at least) ``bound``.

    ``figure`` calculates the figure from the results of ``cases``. With ``within_noise``, the criterion is also met if
    the figure is within two standard errors of the bound.
    """

    row: str
    what: str
    cases: tuple[AcceptanceCase, ...]
    figure: Callable[[FigureOf], float]
    bound: float
    at_least: bool = False
    within_noise: bool = False

    @property
    def limit(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"

    def holds(self, value: float, error: float = 0.0) -> bool:
        slack = ROUNDING + (2 * error if self.within_noise else 0.0)
        return value >= self.bound - slack if self.at_least else value <= self.bound + slack


def ratio(
    row: str,
    case: AcceptanceCase,
    figure: str,
    other: AcceptanceCase,
    bound: float,
    at_least: bool = False,
    within_noise: bool = False,
) -> AcceptanceDemand:
    """Return a criterion: the ``figure`` of ``case`` must be at most (or at least) ``bound`` times the figure of
    ``other``.
    """
    what = f"{case.name}: {FIGURES[figure]} / {other.policy if other.policy != case.policy else other.name}"

    def quotient(look: FigureOf) -> float:
        value, reference = look(case, figure), look(other, figure)
        if reference == 0:
            return 0.0 if value == 0 else math.inf
        return value / reference

    return AcceptanceDemand(row, what, (case, other), quotient, bound, at_least, within_noise)


def none_of(row: str, case: AcceptanceCase, figure: str, what: str) -> AcceptanceDemand:
    """Return an acceptance criterion: the ``figure`` of ``case`` must be 0."""
    return AcceptanceDemand(row, f"{case.name}: {what}", (case,), lambda look: look(case, figure), 0.0)


def demands(quick: bool = False) -> list[AcceptanceDemand]:
    """Return all acceptance criteria. With ``quick``, each group of criteria has fewer cases and shorter runs."""
    groups = (
        _few, _alike, _unlike, _caches, _few_caches, _closed, _disturbed, _death, _failures, _neighbours, _slower,
        _crowds, _first_seconds, _overload, _needed_hosts,
    )  # fmt: skip
    return [demand for group in groups for demand in group(quick)]


def _case(
    farm: str, workload: str, load: float, quick: bool, text: str | None = None, **changes: Any
) -> AcceptanceCase:
    """Return a case.

    If ``text`` is given, the case's name contains ``text`` instead of the load. ``changes`` overrides fields of the
    scenario.
    """
    fields = {"duration": 40.0 if quick else 120.0, **changes}
    return AcceptanceCase(f"{farm} {workload} {text or f'{load:g}'}", Scenario(FARMS[farm], workload, load, **fields))


def _few(quick: bool) -> Iterator[AcceptanceDemand]:
    row = "light traffic: select the member with the highest score, and respond at least as fast as round robin"
    duration = 300.0 if quick else 2000.0
    for farm in FARMS:
        for workload in ("cgi",) if quick else WORKLOADS:
            case = _case(farm, workload, 0.85, quick, "1.5/s", rate=1.5, duration=duration, check_few=True)
            yield none_of(
                row, case, "few_others", "answers that named a member whose score was clearly below the highest"
            )
            yield ratio(row, case, "mean_ms", case.by(RR), 1.0, within_noise=True)
            yield ratio(row, case, "p95_ms", case.by(RR), 1.0, within_noise=True)


def _alike(quick: bool) -> Iterator[AcceptanceDemand]:
    row = "identical servers: never worse than round robin"
    for workload in ("mix",) if quick else WORKLOADS:
        for load in (0.85,) if quick else LOADS:
            case = _case("U10", workload, load, quick)
            yield ratio(row, case, "mean_ms", case.by(RR), 1.05)
            yield ratio(row, case, "p95_ms", case.by(RR), 1.05)
    row = "identical servers, mix: better than round robin"
    case = _case("U10", "mix", 0.85, quick)
    yield ratio(row, case, "p95_ms", case.by(RR), 0.97)
    yield ratio(row, case, "p95_ms", case.by(ORACLE), 2.3)
    if not quick:
        case = _case("U10", "mix", 0.95, quick)
        yield ratio(row, case, "p95_ms", case.by(RR), 0.90)


def _unlike(quick: bool) -> Iterator[AcceptanceDemand]:
    row = "unequal servers, H10 mix"
    case = _case("H10", "mix", 0.85, quick, duration=120.0)  # shorter runs vary by more than the margin of 1.40
    yield ratio(row, case, "p95_ms", case.by(RR), 0.10)
    yield ratio(row, case, "p95_ms", case.by(ORACLE), 1.40)
    yield none_of(row, case, "failed", "failures")
    row = "unequal servers: far better than round robin, and close to the oracle"
    for farm in ("H10", "T3"):
        for workload in ("mix",) if quick else WORKLOADS:
            for load in (0.85,) if quick else LOADS:
                case = _case(farm, workload, load, quick)
                yield ratio(row, case, "p95_ms", case.by(RR), 0.25)
                if load <= 0.85:
                    yield ratio(row, case, "p95_ms", case.by(ORACLE), 1.8)
    row = "unequal servers: throughput"
    case = _case("T3", "mix", 0.85, quick)
    yield ratio(row, case, "throughput_per_s", case.by(RR), 1.25, at_least=True)


def _caches(quick: bool) -> Iterator[AcceptanceDemand]:
    row = "200 caching resolvers"
    for farm, bound in (("U10", 0.6), ("H10", 0.15), ("T3", 0.15)):
        for workload in ("mix",) if quick else WORKLOADS:
            case = _case(farm, workload, 0.7, quick, "0.7 caches", clients=SimulatedClients("caches", 200))
            yield ratio(row, case, "p95_ms", case.by(RR), bound)


def _few_caches(quick: bool) -> Iterator[AcceptanceDemand]:
    row = "many clients behind a few caching resolvers"
    for farm in ("U10", "T3") if quick else FARMS:
        for workload in ("mix",) if quick else ("html", "cgi", "mix"):
            for count, seconds, load in ((2, 1.0, 0.2),) if quick else ((2, 1.0, 0.2), (2, 1.0, 0.5), (4, 5.0, 0.3)):
                clients = SimulatedClients("caches", count, shortest=seconds, longest=seconds)
                text = f"{load:g}, {count} of {seconds:g} s"
                case = _case(farm, workload, load, quick, text, clients=clients, duration=60.0)
                yield ratio(row, case, "mean_ms", case.by(RR), 1.0, within_noise=True)


def _closed(quick: bool) -> Iterator[AcceptanceDemand]:
    row = "closed loop with 20 clients that look up the name every 5 s"
    for farm, bound in (("U10", 0.99), ("H10", 1.05), ("T3", 0.99)):
        for workload in ("html",) if quick else WORKLOADS:
            case = _case(farm, workload, 0.0, quick, "closed", clients=SimulatedClients("closed", 20, 5.0))
            yield ratio(row, case, "throughput_per_s", case.by(RR), bound, at_least=True)


def _disturbed(quick: bool) -> Iterator[AcceptanceDemand]:
    for farm in ("T3",) if quick else FARMS:
        # Runs have full length even with --quick: within 40 s, p95 varies by more than the bound allows
        case = _case(farm, "mix", 0.85, quick=False)
        lossy = _case(farm, "mix", 0.85, False, "0.85 2 % lost", loss=0.02)
        twice = _case(farm, "mix", 0.85, False, "0.85 2 DNS servers", dns_servers=2)
        yield ratio("reports lost", lossy, "p95_ms", case, 1.10)
        yield ratio("several DNS servers", twice, "p95_ms", case, 1.10)


def _death(quick: bool) -> Iterator[AcceptanceDemand]:
    row = "a server dies"
    for farm in ("U10",) if quick else FARMS:
        victim = FARMS[farm][-1].name
        case = _case(farm, "mix", 0.7, quick, f"0.7, {victim} dies", outages=(Outage(victim, 40.0),))
        yield none_of(row, case, "late_answers", "answers that named the dead server after stale_after had passed")
        if farm == "U10":
            yield ratio(row, case, "failed", case.by(RR), 1.2)


def _failures(quick: bool) -> Iterator[AcceptanceDemand]:
    """In the farm T3, the strongest server provides 69 % of the total capacity. These cases are always short, whether
    ``quick`` is set or not."""
    hangs = Outage("s3", 30.0, 50.0, service_only=True)
    case = _case("T3", "html", 0.5, quick, "0.5, the web server on s3 dies", duration=40.0, outages=(hangs,))
    yield ratio("a web server dies, and the others cannot replace it", case, "failed", case.by(RR), 0.5)
    row = "a server fails again and again"
    outages = tuple(Outage("s1", begin, begin + 4.0) for begin in (20.0, 30.0, 40.0, 50.0, 60.0, 70.0))
    case = _case("T3", "mix", 0.5, quick, "0.5, s1 fails six times", duration=60.0, outages=outages)
    yield ratio(row, case, "failed", case.by(RR), 0.15)
    row = "the server-status page fails on a server that the others cannot replace"
    usual = _case("T3", "html", 0.7, quick, duration=40.0)
    hidden = _case(
        "T3", "html", 0.7, quick, "0.7, no status page", duration=40.0, outages=(Outage("s3", 30.0, page_only=True),)
    )
    yield ratio(row, hidden, "mean_ms", usual, 1.5)


def _slower(quick: bool) -> Iterator[AcceptanceDemand]:
    row = "the cores of a host become slower"
    slow = Slowdown("s3", 60.0, 100.0, 0.4)
    case = _case("T3", "mix", 0.5, quick, "0.5, s3 slows down", warm_up=60.0, duration=40.0, slowdowns=(slow,))
    yield ratio(row, case, "mean_ms", case.by(RR), 0.45)  # 0.35 with the rule changed-cost, 0.58 without


def _neighbours(quick: bool) -> Iterator[AcceptanceDemand]:
    row = "other work on a host"  # three busy loops on the strongest web server's host
    for load in (0.3,) if quick else (0.2, 0.3, 0.5):
        other = OtherWork("s3", 10.0, 70.0, 3.0)
        case = AcceptanceCase(
            f"html {load:g}", Scenario(UNLIKE, "html", load, duration=60.0, other_work=(other,), max_speed_gain=TRUSTED)
        )
        yield ratio(row, case, "mean_ms", case.by(RR), 1.0)
        yield ratio(row, case, "mean_ms", case.by(WEIGHTED), 1.1)


def _crowds(quick: bool) -> Iterator[AcceptanceDemand]:
    row = "ninefold crowd"  # the load jumps from 0.1 to 0.9 for ten seconds
    for farm in FARMS:
        for workload in ("mix",) if quick else ("html", "cgi", "mix"):
            case = _case(farm, workload, 0.1, quick, "0.1, 9 x", duration=30.0, surges=(Surge(30.0, 40.0, 9.0),))
            yield ratio(row, case, "mean_ms", case.by(RR), 1.0, within_noise=True)
            yield ratio(row, case, "mean_ms", case.by(WEIGHTED), 1.2, within_noise=True)


def _first_seconds(quick: bool) -> Iterator[AcceptanceDemand]:
    row = "closed loop with a lookup before every request, measured after the first 3 s"
    for workload in ("html",) if quick else ("html", "cgi"):
        for count in (20, 60, 100):
            clients = SimulatedClients("closed", count, 0.0)
            scenario = Scenario(UNLIKE, workload, clients=clients, warm_up=3, duration=8, max_speed_gain=TRUSTED)
            case = AcceptanceCase(f"{workload} {count} clients", scenario)
            yield ratio(row, case, "throughput_per_s", case.by(ORACLE), 0.9, at_least=True)
            yield ratio(row, case, "throughput_per_s", case.by(WEIGHTED), 1.0, at_least=True)
            yield ratio(row, case, "p95_ms", case.by(WEIGHTED), 1.0)


def _overload(quick: bool) -> Iterator[AcceptanceDemand]:
    row = "more clients than web server workers, with alarms"
    servers = tuple(replace(server, workers=50) for server in UNLIKE)
    for count in (700,) if quick else (700, 1400):
        clients = SimulatedClients("closed", count, 0.0)
        scenario = Scenario(
            servers,
            "html",
            clients=clients,
            warm_up=3.0,
            duration=20.0,
            alarms=DEFAULT_CONDITIONS,
            max_speed_gain=TRUSTED,
        )
        case = AcceptanceCase(f"html {count} clients, alarms", scenario)
        yield ratio(row, case, "throughput_per_s", case.by(ORACLE), 0.95, at_least=True)
        yield ratio(row, case, "throughput_per_s", case.by(RR), 0.98, at_least=True)
        yield ratio(row, case, "p95_ms", case.by(RR), 1.0, within_noise=True)
        yield ratio(row, case, "failed", case.by(RR), 1.0, within_noise=True)


def _needed_hosts(quick: bool) -> Iterator[AcceptanceDemand]:
    row = "a host with other work raises alarms, and the others cannot serve all requests"
    condition = "run_queue/cpu > 8"  # met all the time on s1, which runs 20 other tasks, and nowhere else
    other = OtherWork("s1", 20.0, 140.0, 20.0)
    case = _case("T3", "html", 0.7, quick, "0.7, alarms on s1", other_work=(other,), alarms=(condition,))
    yield ratio(row, case, "mean_ms", case.by(RR), 0.15)
    yield ratio(row, case, "mean_ms", case.by(WEIGHTED), 1.25)
    hosts = tuple(OtherWork(f"s{n}", 20.0, 140.0, 20.0) for n in range(7, 11))  # four of ten equal hosts
    for workload in ("mix",) if quick else ("html", "mix"):
        case = _case(
            "U10", workload, 0.65, quick, "0.65, alarms on 4 hosts", other_work=hosts, alarms=(condition,)
        )  # fmt: skip
        yield ratio(row, case, "mean_ms", case.by(RR), 1.0)
