"""The study ``capacity``: CPU, memory and response time against the rate, and the frontier of connections and rate.

The operating-system study made 30000 connections at 400, 800 ... 2400 per second with a page of 1 kB. Here the six
rates are equal fractions of the rate that the farm carries, which is measured first; each is held for some seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import (
    ALONE,
    AROUND_S,
    STATIC,
    UNEQUAL,
    CarriedRates,
    FarmLoad,
    chosen,
    dns_name,
    learning,
)
from lbdns_tools.lab.measuring.measured_case import MeasuredOutcome
from lbdns_tools.lab.presets.capacity_report import CRITERIA, sections
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from lbdns_tools.load.capacity_search import frontier
from lbdns_tools.load.load_plan import OpenLoop
from lbdns_tools.load.run_statistics import RunStatistics

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

FARM: Final = "farm"
PROXY: Final = "haproxy"
#: With round robin, the slowest host would limit the proxy, which the selection round_robin already shows
METHOD: Final = "leastconn"
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
#: The usual number of trials of a search, and their mean rate as a share of the carried rate; to estimate durations
TRIALS, QUICK_TRIALS = 9, 7
TRIAL_SHARE: Final = 0.7
TYPICAL_RATE: Final = 1200.0  # requests/s of a farm like this; to estimate durations
FAILURES: Final = 2  # consecutive failures after which higher rates are skipped


@dataclass(frozen=True, slots=True)
class _CapacityOptions:
    settings: StudySettings
    loading: FarmLoad
    carried: CarriedRates

    @property
    def rates(self) -> int:
        return QUICK_RATES if self.settings.quick else RATES

    @property
    def counts(self) -> tuple[int, ...]:
        return self.settings.clients or (QUICK_COUNTS if self.settings.quick else COUNTS)

    @property
    def rate_s(self) -> float:
        return self.loading.seconds(RATE_S, QUICK_RATE_S)


def plan(settings: StudySettings, farm: LabFarm | None) -> StudyPlan:
    """Return the study's steps; the setting ``clients`` gives the frontier's connections. Raises ConfigError."""
    farm = farm or LabFarm(UNEQUAL, proxies=(PROXY,))
    possible = [selection for selection in SELECTIONS if selection != PROXY or PROXY in farm.proxies]
    usual = [selection for selection in possible if selection in QUICK_SELECTIONS or not settings.quick]
    selections = chosen(settings.selections, possible, usual)
    options = _CapacityOptions(settings, FarmLoad(settings, STATIC, "1k"), CarriedRates())
    return StudyPlan({FARM: farm}, tuple(_steps(options, selections)), partial(sections, farm=farm))


def _steps(options: _CapacityOptions, selections: tuple[str, ...]) -> Iterator[StudyStep]:
    yield learning(FARM, options.loading.workload, options.loading.mix(dns_name("best")), options.settings)
    around = options.loading.warm_up_s + AROUND_S
    for selection in selections:
        seconds = options.loading.calibration_s + around
        yield StudyStep(f"what {selection} carries", FARM, seconds, partial(_carried, options, selection), needed=True)
    rates_s = AROUND_S + options.rates * (options.rate_s + options.loading.warm_up_s + 1.5)
    for repetition in range(1, options.settings.repetitions + 1):
        for selection in selections:
            do = partial(_rates, options, selection, repetition)
            yield StudyStep(f"{selection}, {options.rates} rates", FARM, rates_s, do)
    trials = QUICK_TRIALS if options.settings.quick else TRIALS
    for selection in selections:
        for count in options.counts if selection in SEARCHED else ():
            seconds = AROUND_S + trials * (1.0 + count / TYPICAL_RATE / TRIAL_SHARE)
            yield StudyStep(
                f"{selection}, {count} connections", FARM, seconds, partial(_search, options, selection, count)
            )


@contextmanager
def _asked(lab: Lab, selection: str) -> Iterator[str]:
    """Yield the address of the proxy, which runs while the context lasts; "" for a selection without a proxy."""
    if selection != PROXY:
        yield ""
        return
    with lab.proxy(PROXY, METHOD) as address:
        yield address


def _carried(options: _CapacityOptions, selection: str, lab: Lab) -> Iterable[MeasuredOutcome]:
    lab.settle()
    with _asked(lab, selection) as target:
        yield options.loading.calibrate(lab, selection, options.carried, farm=FARM, target=target)


def _rates(options: _CapacityOptions, selection: str, repetition: int, lab: Lab) -> Iterable[MeasuredOutcome]:
    highest = options.carried.highest
    failures = 0
    lab.settle()
    with _asked(lab, selection) as target:
        for number in range(1, options.rates + 1):
            rate = float(round(highest * number / options.rates))
            load, more = OpenLoop((rate,), options.rate_s), {"part": "rate"}
            outcome = options.loading(lab, selection, load, farm=FARM, target=target, more=more, repetition=repetition)
            yield outcome
            failures = failures + 1 if CRITERIA.failing(outcome.row.figures, rate) else 0
            if failures == FAILURES:
                return


def _search(options: _CapacityOptions, selection: str, count: int, lab: Lab) -> Iterable[MeasuredOutcome]:
    """Yield all trials, and then the trial at the highest rate again, with the search's result."""
    carried = options.carried[selection]
    trials: list[MeasuredOutcome] = []
    # Without warm-up, which would take most of the time: the farm is warm from the previous trial
    loading = replace(options.loading, settings=replace(options.settings, warm_up_s=0.0))
    try_point = partial(_try, loading, lab, selection, trials)
    accuracy = QUICK_ACCURACY if options.settings.quick else ACCURACY
    lab.settle()
    try:
        (edge,) = frontier(try_point, CRITERIA, (count,), LOW * carried, HIGH * carried, accuracy)
    except LbdnsError:
        yield from trials
        raise
    yield from trials
    found = edge.found
    held = next((trial for trial in reversed(trials) if trial.row.figures is found.figures), trials[-1])
    more: dict[str, str | float] = {"part": "edge", "connections": count, "ending": found.ending, "why": found.why}
    if found.highest is not None:
        more["highest_per_s"] = found.highest
    yield replace(held, case=replace(held.case, more=more))


def _try(
    loading: FarmLoad, lab: Lab, selection: str, trials: list[MeasuredOutcome], connections: int, rate: float
) -> RunStatistics:
    load = OpenLoop((rate,), connections / rate, requests=connections)
    trials.append(loading(lab, selection, load, farm=FARM, more={"part": "trial", "connections": connections}))
    return trials[-1].row.figures


PRESET: Final = StudyPreset(
    "capacity",
    "Capacity: the rates that a host, a farm and a proxy carry",
    "Measure CPU, memory and response time against the rate, and which rate is carried for how many connections.",
    plan,
)
