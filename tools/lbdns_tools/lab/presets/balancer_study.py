"""The study ``balancers``: DNS against balancers (HAProxy, nginx, Pound) in front of web hosts, as in 2014-16.

Its parts are the concurrency sweep, the table of ``ab -n 50000 -c 300``, the rate sweep with a page that sleeps, and
WebStone's files; each with the fastest host alone, round robin, best, and balancers in front of the same hosts. At each
point, all selections are measured in turn, so that other activity on a shared machine affects all of them alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_tools.lab.farm.lab_farm import NAMES, PROXIES, LabFarm
from lbdns_tools.lab.front.balancer_programs import LEAST_CONNECTIONS, ROUND_ROBIN, is_there
from lbdns_tools.lab.loads.farm_load import (
    OVERHEAD_S,
    STATIC,
    TIMEOUT_S,
    UNEQUAL,
    CarriedRates,
    FarmLoad,
    MeasurementLength,
    chosen,
    dns_name,
    learning,
    strongest,
    web_point,
)
from lbdns_tools.lab.measuring import case_measurement
from lbdns_tools.lab.measuring.measured_case import MeasuredCase, MeasuredOutcome
from lbdns_tools.lab.presets.balancer_report import AB_CLIENTS, AB_REQUESTS, FrontBalancer, sections
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from lbdns_tools.load.load_plan import ClosedLoop, OpenLoop
from lbdns_tools.load.request_mix import FILE_SETS, file_set

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

FARM: Final = "unequal"
DIRECT: Final = "direct"
#: The balancer of each selection, and its method of choosing
FRONTS: Final[Mapping[str, FrontBalancer]] = {
    "nginx": FrontBalancer("nginx", ROUND_ROBIN),
    "nginx_least": FrontBalancer("nginx", LEAST_CONNECTIONS),
    "haproxy": FrontBalancer("haproxy", ROUND_ROBIN),
    "haproxy_least": FrontBalancer("haproxy", LEAST_CONNECTIONS),
    "pound": FrontBalancer("pound", ROUND_ROBIN),
}
SELECTIONS: Final = (DIRECT, "round_robin", "best", *FRONTS)
#: The selections of the rate sweep; the study had HAProxy and Pound
RATED: Final = ("round_robin", "best", "nginx", "haproxy", "haproxy_least", "pound")
QUICK_RATED: Final = ("best", "haproxy")

#: Numbers of concurrent requests in the concurrency sweep
CONCURRENCY: Final = tuple(range(1, 1402, 100))
QUICK_CONCURRENCY: Final = (1, 301)
SWEEP_REQUESTS: Final = 5000
QUICK_SWEEP_REQUESTS: Final = 1000
REPETITIONS: Final = 3
QUICK_AB_REQUESTS: Final = 3000
#: The page of the rate sweep. Ten equal fractions of the carried rate replace the study's 100 to 2000/s for 60 s each
SLEEPING: Final = "/cgi-bin/sleep?s=0.2"
SLEEP_CLIENTS: Final = 100  # enough to keep the processors busy although each request sleeps 0.2 s
RATES: Final = 10
QUICK_RATES: Final = 3
RATE_S: Final = 8.0
QUICK_RATE_S: Final = 3.0
#: Above this share of failures, higher rates are skipped, since they would only build a longer queue
MOST_FAILED_PERCENT: Final = 50.0
WEB_CLIENTS: Final = 60
WEB: Final = MeasurementLength(3.0, 8.0)
QUICK_WEB: Final = MeasurementLength(1.5, 2.5)
#: Requests/s of a farm like this; to estimate durations
TYPICAL_RATE: Final = 1500.0
ONE_CLIENT_RATE: Final = 500.0  # of a single client, which waits for each response
START_S: Final = 0.7  # s until a balancer forwards pages


@dataclass(frozen=True, slots=True)
class _BalancerOptions:
    settings: StudySettings
    selections: tuple[str, ...]

    @property
    def repetitions(self) -> range:
        """The repetitions of the sweep: as many as the original study had, or those of --repeat if more."""
        return range(1, 1 + max(self.settings.repetitions, 1 if self.settings.quick else REPETITIONS))

    def length(self, usual: MeasurementLength, quick: MeasurementLength) -> MeasurementLength:
        return (quick if self.settings.quick else usual).with_settings(self.settings)


def plan(settings: StudySettings, farm: LabFarm | None) -> StudyPlan:
    """Return the study's steps. Without --farm, every installed balancer takes part. Raises ConfigError."""
    farm = farm or LabFarm(UNEQUAL, proxies=tuple(name for name in PROXIES if name != "pound" or is_there(name)))
    there = [each for each in SELECTIONS if each not in FRONTS or FRONTS[each].proxy in farm.proxies]
    options = _BalancerOptions(settings, chosen(settings.selections, there, there))
    steps = (*_concurrency(options), *_ab(options), *_rate(options), *_web(options))
    left_out = [name for name in PROXIES if name not in farm.proxies]
    return StudyPlan({FARM: farm}, steps, partial(sections, farm=farm, fronts=FRONTS, left_out=left_out))


@contextmanager
def reached(lab: Lab, selection: str) -> Iterator[str]:
    """Yield the name or address that clients use for a selection; a balancer runs while the context lasts."""
    if front := FRONTS.get(selection):
        with lab.proxy(front.proxy, front.method) as address:
            yield address
    else:
        yield lab.machines[strongest(lab.farm)].address if selection == DIRECT else dns_name(selection)


def _requests(options: _BalancerOptions, workload: str) -> FarmLoad:
    """Return a load without warm-up, as in the original studies, whose clients practically never give up."""
    return FarmLoad(replace(options.settings, warm_up_s=0.0), STATIC, workload, TIMEOUT_S)


def _concurrency(options: _BalancerOptions) -> Iterator[StudyStep]:
    quick = options.settings.quick
    counts = options.settings.clients or (QUICK_CONCURRENCY if quick else CONCURRENCY)
    requests = QUICK_SWEEP_REQUESTS if quick else SWEEP_REQUESTS
    loading = _requests(options, "1k")
    yield learning(FARM, "the sweep", loading.mix(dns_name("best")), options.settings)
    for repetition in options.repetitions:
        for count in counts:
            for selection in options.selections:
                load, more = ClosedLoop(count, requests=max(requests, count)), {"part": "sweep"}
                do = partial(_one, loading, selection, load, more, repetition)
                rate = TYPICAL_RATE if count > 1 else ONE_CLIENT_RATE
                yield StudyStep(
                    f"sweep, {count} at a time, {selection}", FARM, _seconds(selection, requests / rate), do
                )


def _ab(options: _BalancerOptions) -> Iterator[StudyStep]:
    requests = QUICK_AB_REQUESTS if options.settings.quick else AB_REQUESTS
    loading = _requests(options, "1k")
    for repetition in range(1, options.settings.repetitions + 1):
        for selection in options.selections:
            load, more = ClosedLoop(AB_CLIENTS, requests=requests), {"part": "ab"}
            do = partial(_one, loading, selection, load, more, repetition)
            yield StudyStep(f"ab, {selection}", FARM, _seconds(selection, requests / TYPICAL_RATE), do)


def _one(
    loading: FarmLoad,
    selection: str,
    load: ClosedLoop | OpenLoop,
    more: Mapping[str, str | float],
    repetition: int,
    lab: Lab,
) -> Iterator[MeasuredOutcome]:
    with reached(lab, selection) as target:
        yield loading(lab, selection, load, farm=FARM, target=target, more=more, repetition=repetition)


def _rate(options: _BalancerOptions) -> Iterator[StudyStep]:
    quick = options.settings.quick
    rated = [each for each in options.selections if each in (QUICK_RATED if quick else RATED)]
    if not rated:
        return
    loading, carried = FarmLoad(options.settings, SLEEPING, "sleep"), CarriedRates()
    seconds, rates = loading.seconds(RATE_S, QUICK_RATE_S), QUICK_RATES if quick else RATES
    yield learning(FARM, "the page that sleeps", loading.mix(dns_name("best")), options.settings)
    length = loading.warm_up_s + seconds + OVERHEAD_S
    yield StudyStep(
        "the carried rate of the page that sleeps",
        FARM,
        length,
        partial(_carried, loading, carried, seconds),
        needed=True,
    )
    for repetition in range(1, options.settings.repetitions + 1):
        for selection in rated:
            do = partial(_rates, loading, carried, selection, rates, seconds, repetition)
            yield StudyStep(f"{rates} rates, {selection}", FARM, rates * (length + 1.0), do)


def _carried(loading: FarmLoad, carried: CarriedRates, seconds: float, lab: Lab) -> Iterator[MeasuredOutcome]:
    load, more = ClosedLoop(SLEEP_CLIENTS, seconds), {"part": "carried"}
    outcome = loading(lab, "best", load, farm=FARM, target=dns_name("best"), more=more)
    carried.learn("best", outcome)
    yield outcome


def _rates(
    loading: FarmLoad, carried: CarriedRates, selection: str, rates: int, seconds: float, repetition: int, lab: Lab
) -> Iterator[MeasuredOutcome]:
    """Measure one rate after another, until most requests fail."""
    with reached(lab, selection) as target:
        for number in range(1, rates + 1):
            lab.settle()
            load, more = OpenLoop((carried.highest * number / rates,), seconds), {"part": "rate"}
            outcome = loading(lab, selection, load, farm=FARM, target=target, more=more, repetition=repetition)
            yield outcome
            if (outcome.row.figures.error_percent or 0.0) > MOST_FAILED_PERCENT:
                return


def _web(options: _BalancerOptions) -> Iterator[StudyStep]:
    length = options.length(WEB, QUICK_WEB)
    for workload in FILE_SETS:
        yield learning(FARM, workload, file_set(workload, f"http://{dns_name('best')}"), options.settings)
        for repetition in range(1, options.settings.repetitions + 1):
            for selection in options.selections:
                do = partial(_web_point, options, workload, selection, length, repetition)
                seconds = length.total(workload) + (START_S if selection in FRONTS else 0.0)
                yield StudyStep(f"{workload}, {WEB_CLIENTS} clients, {selection}", FARM, seconds, do)


def _web_point(
    options: _BalancerOptions, workload: str, selection: str, length: MeasurementLength, repetition: int, lab: Lab
) -> Iterable[MeasuredOutcome]:
    resolve = "connection" if selection in NAMES.values() else ""
    with reached(lab, selection) as target:
        case = MeasuredCase(selection, workload, resolve, target, FARM, {"part": "web"})
        planned = web_point(workload, target, WEB_CLIENTS, "connection", length, options.settings.seed)
        yield case_measurement.measure(lab, case, planned, repetition)


def _seconds(selection: str, seconds: float) -> float:
    return seconds + OVERHEAD_S + (START_S if selection in FRONTS else 0.0)


PRESET: Final = StudyPreset(
    "balancers",
    "DNS and balancers in front of the same hosts",
    """Compare the fastest host alone (direct), round_robin, best, nginx and haproxy with round robin, nginx_least and
    haproxy_least with the fewest connections, and pound if installed: the concurrency sweep, the table of ab, the rate
    sweep with the balancer's CPU, and WebStone's files.""",
    plan,
)
