"""Preset ``capacity``: CPU, memory and response time against the rate, and how many connections at which rate.

The operating-system study made 30000 connections at 400, 800 ... 2400 a second with a page of 1 kB. Here the six rates
are even parts of what the farm carries, which is measured first, and each is held for some seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns.errors import LbdnsError
from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import Farm
from lbdns_tools.lab.presets.capacity_sections import CRITERIA, sections
from lbdns_tools.lab.presets.learning import learning
from lbdns_tools.lab.presets.loading import ALONE, AROUND_S, STATIC, Carried, Loading
from lbdns_tools.lab.presets.points import UNEQUAL, chosen, dns_name
from lbdns_tools.lab.presets.preset import Preset, Settings, Step, Study
from lbdns_tools.load.figures import Figures
from lbdns_tools.load.plan import Open
from lbdns_tools.load.search import frontier

if TYPE_CHECKING:
    from lbdns_tools.lab.lab import Lab

FARM: Final = "farm"
PROXY: Final = "haproxy"
#: In turns, a proxy would carry as much as the slowest host lets it, and that is what round_robin is there for
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
ACCURACY: Final = 0.1  # of the highest rate that is found
QUICK_ACCURACY: Final = 0.4
#: Of what is carried by clients that wait for a response, where the search begins and where it ends at the latest
LOW, HIGH = 0.25, 2.0
#: How many trials a search most often is, and at which share of what is carried in the mean: for the time it takes
TRIALS, QUICK_TRIALS = 9, 7
TRIAL_SHARE: Final = 0.7
TYPICAL_RATE: Final = 1200.0  # requests/s, of a farm like this: for the time it takes
FAILURES: Final = 2  # in a row, after which higher rates are left out


@dataclass(frozen=True, slots=True)
class _Wanted:
    settings: Settings
    loading: Loading
    carried: Carried

    @property
    def rates(self) -> int:
        return QUICK_RATES if self.settings.quick else RATES

    @property
    def counts(self) -> tuple[int, ...]:
        return self.settings.clients or (QUICK_COUNTS if self.settings.quick else COUNTS)

    @property
    def rate_s(self) -> float:
        return self.loading.seconds(RATE_S, QUICK_RATE_S)


def plan(settings: Settings, farm: Farm | None) -> Study:
    """``clients`` of the settings are the numbers of connections of the frontier. Raises ConfigError."""
    farm = farm or Farm(UNEQUAL, proxies=(PROXY,))
    possible = [selection for selection in SELECTIONS if selection != PROXY or PROXY in farm.proxies]
    usual = [selection for selection in possible if selection in QUICK_SELECTIONS or not settings.quick]
    selections = chosen(settings.selections, possible, usual)
    wanted = _Wanted(settings, Loading(settings, STATIC, "1k"), Carried())
    return Study({FARM: farm}, tuple(_steps(wanted, selections)), partial(sections, farm=farm))


def _steps(wanted: _Wanted, selections: tuple[str, ...]) -> Iterator[Step]:
    yield learning(FARM, wanted.loading.workload, wanted.loading.mix(dns_name("best")), wanted.settings)
    around = wanted.loading.warm_up_s + AROUND_S
    for selection in selections:
        seconds = wanted.loading.seconds(8.0, 3.0) + around
        yield Step(f"what {selection} carries", FARM, seconds, partial(_carried, wanted, selection), needed=True)
    rates_s = AROUND_S + wanted.rates * (wanted.rate_s + wanted.loading.warm_up_s + 1.5)
    for repetition in range(1, wanted.settings.repetitions + 1):
        for selection in selections:
            do = partial(_rates, wanted, selection, repetition)
            yield Step(f"{selection}, {wanted.rates} rates", FARM, rates_s, do)
    trials = QUICK_TRIALS if wanted.settings.quick else TRIALS
    for selection in selections:
        for count in wanted.counts if selection in SEARCHED else ():
            seconds = AROUND_S + trials * (1.0 + count / TYPICAL_RATE / TRIAL_SHARE)
            yield Step(f"{selection}, {count} connections", FARM, seconds, partial(_search, wanted, selection, count))


@contextmanager
def _asked(lab: Lab, selection: str) -> Iterator[str]:
    """The address to ask, of a proxy that stands in front meanwhile; "" where there is none."""
    if selection != PROXY:
        yield ""
        return
    with lab.proxy(PROXY, METHOD) as address:
        yield address


def _carried(wanted: _Wanted, selection: str, lab: Lab) -> Iterable[Outcome]:
    lab.settle()
    with _asked(lab, selection) as target:
        yield wanted.loading.calibrate(lab, selection, wanted.carried, farm=FARM, target=target)


def _rates(wanted: _Wanted, selection: str, repetition: int, lab: Lab) -> Iterable[Outcome]:
    highest = wanted.carried.highest
    failures = 0
    lab.settle()
    with _asked(lab, selection) as target:
        for number in range(1, wanted.rates + 1):
            rate = float(round(highest * number / wanted.rates))
            load, more = Open((rate,), wanted.rate_s), {"part": "rate"}
            outcome = wanted.loading(lab, selection, load, farm=FARM, target=target, more=more, repetition=repetition)
            yield outcome
            failures = failures + 1 if CRITERIA.failing(outcome.row.figures, rate) else 0
            if failures == FAILURES:
                return


def _search(wanted: _Wanted, selection: str, count: int, lab: Lab) -> Iterable[Outcome]:
    """All trials, and in the end the one that was found once more, with what the search came to."""
    carried = wanted.carried[selection]
    trials: list[Outcome] = []
    # A warm-up before each trial would be most of the time: the farm is warm from the one before
    loading = replace(wanted.loading, settings=replace(wanted.settings, warm_up_s=0.0))
    try_point = partial(_try, loading, lab, selection, trials)
    accuracy = QUICK_ACCURACY if wanted.settings.quick else ACCURACY
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


def _try(loading: Loading, lab: Lab, selection: str, trials: list[Outcome], connections: int, rate: float) -> Figures:
    load = Open((rate,), connections / rate, requests=connections)
    trials.append(loading(lab, selection, load, farm=FARM, more={"part": "trial", "connections": connections}))
    return trials[-1].row.figures


PRESET: Final = Preset(
    "capacity",
    "Capacity: what a host, a farm and a proxy carry",
    "CPU, memory and response time against the rate; how many connections are carried at which rate",
    plan,
)
