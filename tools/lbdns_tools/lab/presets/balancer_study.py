"""The study ``balancers``, which compares DNS with HAProxy, nginx and Pound, as in the 2014-2016 studies.

The study consists of a concurrency sweep, the load of ``ab -n 50000 -c 300``, a rate sweep, and WebStone's files. In
the rate sweep, clients request a CGI program that sleeps. Each part compares the fastest host alone, ``round_robin``,
``best``, and balancers in front of the same hosts. Further parts vary the balancers' settings
(``balancer_variants.py``). At each point, all selections are measured in succession, so other activity on the machine
affects all selections equally.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_tools import installed_programs
from lbdns_tools.lab.farm.lab_farm import NAMES, PROXIES, LabFarm
from lbdns_tools.lab.loads.farm_load import (
    DIRECT,
    FRONTS,
    OVERHEAD_S,
    STATIC,
    TIMEOUT_S,
    UNEQUAL,
    USUAL_FRONTS,
    FarmLoad,
    MeasurementLength,
    chosen,
    reached,
)
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.presets import balancer_variants
from lbdns_tools.lab.report.balancer_report import AB_CLIENTS, AB_REQUESTS, sections
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from lbdns_tools.load.load_plan import ClosedLoop, OpenLoop
from lbdns_tools.load.request_mix import FILE_SETS

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

FARM: Final = "unequal"
SELECTIONS: Final = (DIRECT, "round_robin", "best", *USUAL_FRONTS)
#: Policies that the study compares only on request
OTHER_POLICIES: Final = tuple(policy for policy in NAMES.values() if policy not in SELECTIONS)
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
#: The page of the rate sweep. Ten equal steps up to the carried rate replace the study's 100 to 2000/s for 60 s each
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
#: Requests/s that such a farm serves; used to estimate durations
TYPICAL_RATE: Final = 1500.0
ONE_CLIENT_RATE: Final = 500.0  # of a single client, which waits for each response
START_S: Final = 0.7  # s until a balancer forwards pages


def plan(settings: StudySettings, farm: LabFarm | None) -> StudyPlan:
    """Return the study's steps. Without --farm, the study includes all installed balancers. Raises ConfigError."""
    installed = tuple(name for name in PROXIES if name != "pound" or installed_programs.is_there(name))
    farm = farm or LabFarm(UNEQUAL, proxies=installed)
    known = (*SELECTIONS, *balancer_variants.usual(settings.quick))
    there = [each for each in dict.fromkeys(known) if each not in FRONTS or FRONTS[each].program in farm.proxies]
    selections = chosen(settings.selections, (*there, *OTHER_POLICIES), there)
    usual = tuple(each for each in selections if each in (*SELECTIONS, *OTHER_POLICIES))
    parts = (_concurrency, _ab, _rate, _web)
    steps = [step for part in parts for step in part(settings, usual)]
    steps += balancer_variants.steps(settings, selections, FARM)
    farms = {FARM: farm, **balancer_variants.farms(farm)}
    farms = {name: each for name, each in farms.items() if any(step.farm == name for step in steps)}
    left_out = [name for name in PROXIES if name not in farm.proxies]
    return StudyPlan(farms, tuple(steps), partial(sections, farm=farm, left_out=left_out))


def _requests(settings: StudySettings) -> FarmLoad:
    """Return a load without a warm-up, as in the original studies, and with a timeout that requests rarely exceed."""
    return FarmLoad(replace(settings, warm_up_s=0.0), STATIC, "1k", TIMEOUT_S)


def _concurrency(settings: StudySettings, selections: tuple[str, ...]) -> Iterator[StudyStep]:
    counts = settings.clients or (QUICK_CONCURRENCY if settings.quick else CONCURRENCY)
    requests = QUICK_SWEEP_REQUESTS if settings.quick else SWEEP_REQUESTS
    # As many repetitions as in the original study, or --repeat if that is more
    repetitions = max(settings.repetitions, 1 if settings.quick else REPETITIONS)
    loading = _requests(settings)
    yield loading.learning_step(FARM, "the sweep")
    for repetition in range(1, 1 + repetitions):
        for count in counts:
            rate = TYPICAL_RATE if count > 1 else ONE_CLIENT_RATE
            load = ClosedLoop(count, requests=max(requests, count))
            for selection in selections:
                do = partial(_one, loading, selection, load, "sweep", repetition)
                name = f"sweep, {count} concurrent clients, {selection}"
                yield StudyStep(name, FARM, requests / rate + OVERHEAD_S + _start_s(selection), do)


def _ab(settings: StudySettings, selections: tuple[str, ...]) -> Iterator[StudyStep]:
    requests = QUICK_AB_REQUESTS if settings.quick else AB_REQUESTS
    loading, load = _requests(settings), ClosedLoop(AB_CLIENTS, requests=requests)
    for repetition in range(1, settings.repetitions + 1):
        for selection in selections:
            do = partial(_one, loading, selection, load, "ab", repetition)
            seconds = requests / TYPICAL_RATE + OVERHEAD_S + _start_s(selection)
            yield StudyStep(f"ab, {selection}", FARM, seconds, do)


def _one(
    loading: FarmLoad, selection: str, load: ClosedLoop | OpenLoop, part: str, repetition: int, lab: Lab
) -> Iterator[MeasuredOutcome]:
    with reached(lab, selection, FRONTS.get(selection)) as target:
        yield loading(lab, selection, load, {"part": part}, farm=FARM, target=target, repetition=repetition)


def _rate(settings: StudySettings, selections: tuple[str, ...]) -> Iterator[StudyStep]:
    rated = [each for each in selections if each in (QUICK_RATED if settings.quick else RATED)]
    if not rated:
        return
    loading = FarmLoad(settings, SLEEPING, "sleep")
    seconds, rates = loading.seconds(RATE_S, QUICK_RATE_S), QUICK_RATES if settings.quick else RATES
    yield loading.learning_step(FARM, "the page that sleeps")
    length = loading.warm_up_s + seconds + OVERHEAD_S
    do = partial(_carried, loading, seconds)
    yield StudyStep("the sustained rate for the page that sleeps", FARM, length, do, needed=True)
    for repetition in range(1, settings.repetitions + 1):
        for selection in rated:
            sweep = partial(_rates, loading, selection, rates, seconds, repetition)
            yield StudyStep(f"{rates} rates, {selection}", FARM, rates * (length + 1.0), sweep)


def _carried(loading: FarmLoad, seconds: float, lab: Lab) -> Iterator[MeasuredOutcome]:
    outcome = loading(lab, "best", ClosedLoop(SLEEP_CLIENTS, seconds), {"part": "carried"}, farm=FARM)
    loading.carried.learn("best", outcome)
    yield outcome


def _rates(
    loading: FarmLoad, selection: str, rates: int, seconds: float, repetition: int, lab: Lab
) -> Iterator[MeasuredOutcome]:
    """Measure a selection at increasing request rates until most requests fail."""
    with reached(lab, selection, FRONTS.get(selection)) as target:
        for number in range(1, rates + 1):
            lab.settle()
            load, more = OpenLoop((loading.carried.highest * number / rates,), seconds), {"part": "rate"}
            outcome = loading(lab, selection, load, more, farm=FARM, target=target, repetition=repetition)
            yield outcome
            if (outcome.row.figures.error_percent or 0.0) > MOST_FAILED_PERCENT:
                return


def _web(settings: StudySettings, selections: tuple[str, ...]) -> Iterator[StudyStep]:
    length = (QUICK_WEB if settings.quick else WEB).with_settings(settings)
    load = ClosedLoop(WEB_CLIENTS, length.seconds)
    for workload in FILE_SETS:
        loading = FarmLoad(replace(settings, warm_up_s=length.warm_up_s), "", workload, TIMEOUT_S)
        yield loading.learning_step(FARM)
        for repetition in range(1, settings.repetitions + 1):
            for selection in selections:
                do = partial(_one, loading, selection, load, "web", repetition)
                name = f"{workload}, {WEB_CLIENTS} clients, {selection}"
                yield StudyStep(name, FARM, length.total(workload) + _start_s(selection), do)


def _start_s(selection: str) -> float:
    return START_S if selection in FRONTS else 0.0


PRESET: Final = StudyPreset(
    "balancers",
    "DNS and balancers in front of the same hosts",
    """Compare the fastest host alone ('direct'), 'round_robin', 'best', and balancers. The balancers are nginx and
    haproxy (round robin), nginx_least and haproxy_least (least connections), and, if installed, pound. The study
    consists of a concurrency sweep, the load of ab, a rate sweep that measures the balancers' CPU use, and WebStone's
    files. Three parts vary settings: 'limit' limits HAProxy's connections to each host (haproxy_max6, haproxy_max10),
    'kept' lets nginx reuse its connections to the hosts (nginx_keep_alive), and 'https' repeats the sweep over HTTPS
    (haproxy_tls, nginx_tls and pound_tls end TLS; haproxy_tcp passes it through to the hosts).""",
    plan,
)
