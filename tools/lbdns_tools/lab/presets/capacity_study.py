"""The study ``capacity``, which measures CPU use, memory use and response times at each rate, and finds the highest
rates.

The operating-system study opened 30,000 connections at rates of 400, 800, ..., 2,400 per second to fetch a 1 kB page.
The lab first measures the rate that the farm sustains. The lab then measures at six rates, which rise in equal steps to
the sustained rate. Each rate is held for several seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import ALONE, AROUND_S, FARM, STATIC, UNEQUAL, FarmLoad, chosen, reached
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.programs.balancer_setup import LEAST_CONNECTIONS, BalancerSetup
from lbdns_tools.lab.report.capacity_report import CRITERIA, sections
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from lbdns_tools.load.capacity_search import frontier
from lbdns_tools.load.load_plan import OpenLoop
from lbdns_tools.load.run_statistics import RunStatistics

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

PROXY: Final = "haproxy"
#: With round robin, the slowest host would limit the proxy, which the selection round_robin already shows
BALANCERS: Final = {PROXY: BalancerSetup(PROXY, LEAST_CONNECTIONS)}
SELECTIONS: Final = (ALONE, "round_robin", "best", PROXY)
QUICK_SELECTIONS: Final = SELECTIONS[1:]
SEARCHED: Final = (ALONE, "round_robin", "best")
RATES: Final = 6
QUICK_RATES: Final = 3
RATE_S: Final = 8.0
QUICK_RATE_S: Final = 3.0
COUNTS: Final = (1000, 3000, 9000)
QUICK_COUNTS: Final = (500, 1500)
ACCURACY: Final = 0.1  # relative accuracy of the highest rate
QUICK_ACCURACY: Final = 0.4
#: The search's range, as shares of the rate that is carried when clients wait for each response
LOW, HIGH = 0.25, 2.0
#: The usual number of trials of a search, and their mean rate as a share of the carried rate; for estimates
TRIALS, QUICK_TRIALS = 9, 7
TRIAL_SHARE: Final = 0.7
TYPICAL_RATE: Final = 1200.0  # requests/s that such a farm serves; used to estimate durations
#: Setting -> the kind of the machines on which the lab raises it, and the value that Linux uses without that (on small
#: machines, and before Linux 5.4 in the case of somaxconn)
TUNED: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "somaxconn 128": ("web", {"core/somaxconn": "128"}),
    "tcp_max_syn_backlog 128": ("web", {"ipv4/tcp_max_syn_backlog": "128"}),
    "ip_local_port_range 32768 60999": ("client", {"ipv4/ip_local_port_range": "32768 60999"}),
    "tcp_tw_reuse 0": ("client", {"ipv4/tcp_tw_reuse": "0"}),
}
FAILURES: Final = 2  # consecutive failures after which higher rates are skipped


def plan(settings: StudySettings, farm: LabFarm | None) -> StudyPlan:
    """Return the study's steps. The setting ``clients`` specifies the numbers of connections. Raises ConfigError."""
    farm = farm or LabFarm(UNEQUAL, proxies=(PROXY,))
    possible = [selection for selection in SELECTIONS if selection != PROXY or PROXY in farm.proxies]
    usual = [selection for selection in possible if selection in QUICK_SELECTIONS or not settings.quick]
    selections = chosen(settings.selections, possible, usual)
    steps = tuple(_steps(FarmLoad(settings, STATIC, "1k"), selections))
    return StudyPlan({FARM: farm}, steps, partial(sections, farm=farm))


def _steps(loading: FarmLoad, selections: tuple[str, ...]) -> Iterator[StudyStep]:
    settings = loading.settings
    yield loading.learning_step()
    for selection in selections:
        yield loading.calibration_step(selection, BALANCERS.get(selection))
    rates, rate_s = QUICK_RATES if settings.quick else RATES, loading.seconds(RATE_S, QUICK_RATE_S)
    seconds = rates * (rate_s + 1.5) + (rates - 1) * loading.warm_up_s
    yield from loading.steps(selections, f"{rates} rates", seconds, partial(_rates, loading, rates, rate_s))
    trials = QUICK_TRIALS if settings.quick else TRIALS
    counts = settings.clients or (QUICK_COUNTS if settings.quick else COUNTS)
    for selection in selections:
        for count in counts if selection in SEARCHED else ():
            seconds = AROUND_S + trials * (1.0 + count / TYPICAL_RATE / TRIAL_SHARE)
            do = partial(_search, loading, selection, count, {})
            yield StudyStep(f"{selection}, {count} connections", FARM, seconds, do)
    if ALONE in selections and not settings.quick:
        count = max(counts)
        seconds = AROUND_S + trials * (1.0 + count / TYPICAL_RATE / TRIAL_SHARE)
        for setting in TUNED:
            yield StudyStep(
                f"{setting}, {count} connections", FARM, seconds, partial(_untuned, loading, setting, count)
            )


def _rates(
    loading: FarmLoad, rates: int, rate_s: float, lab: Lab, selection: str, repetition: int
) -> Iterable[MeasuredOutcome]:
    highest = loading.carried.highest
    failures = 0
    lab.settle()
    with reached(lab, selection, BALANCERS.get(selection)) as target:
        for number in range(1, rates + 1):
            rate = float(round(highest * number / rates))
            load = OpenLoop((rate,), rate_s)
            outcome = loading(lab, selection, load, {"part": "rate"}, target=target, repetition=repetition)
            yield outcome
            failures = failures + 1 if CRITERIA.failing(outcome.row.figures, rate) else 0
            if failures == FAILURES:
                return


def _untuned(loading: FarmLoad, setting: str, count: int, lab: Lab) -> Iterable[MeasuredOutcome]:
    """Search with one setting as it would be without the lab."""
    with lab.sysctls(*TUNED[setting]):
        yield from _search(loading, ALONE, count, {"setting": setting}, lab)


def _search(
    loading: FarmLoad, selection: str, count: int, about: Mapping[str, str | float], lab: Lab
) -> Iterable[MeasuredOutcome]:
    """Yield every trial, and then the result of the search: a copy of the trial at the highest sustained rate.

    ``about`` contains further columns of the results.
    """
    carried = loading.carried[selection]
    trials: list[MeasuredOutcome] = []
    # No warm-up, which would take most of the time; the farm is still warm from the previous trial
    cold = replace(loading, settings=replace(loading.settings, warm_up_s=0.0))

    def try_rate(connections: int, rate: float) -> RunStatistics:
        load = OpenLoop((rate,), connections / rate, requests=connections)
        trials.append(cold(lab, selection, load, {"part": "trial", "connections": connections, **about}))
        return trials[-1].row.figures

    accuracy = QUICK_ACCURACY if loading.settings.quick else ACCURACY
    lab.settle()
    try:
        (edge,) = frontier(try_rate, CRITERIA, (count,), LOW * carried, HIGH * carried, accuracy)
    except LbdnsError:
        yield from trials
        raise
    yield from trials
    found = edge.found
    held = next((trial for trial in reversed(trials) if trial.row.figures is found.figures), trials[-1])
    more: dict[str, str | float] = {
        "part": "edge", "connections": count, "ending": found.ending, "why": found.why, **about,
    }  # fmt: skip
    if found.highest is not None:
        more["highest_per_s"] = found.highest
    yield replace(held, case=replace(held.case, more=more))


PRESET: Final = StudyPreset(
    "capacity",
    "Capacity: the rates that a host, a farm and a proxy sustain",
    "Measure CPU use, memory use and response times at each rate, and find the highest rate for each number of "
    "connections.",
    plan,
)
