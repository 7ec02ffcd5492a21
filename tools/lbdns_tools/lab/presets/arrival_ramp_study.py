"""The study ``ramp``, as in the cloud study: a rate that rises linearly beyond the farm's capacity, and service time.

The ramp rises to 1.5 times the rate that best carries, which is measured first. The service-time part loads a host with
two processors with a page that takes 70 ms of CPU, as in the study, where a server passes 2 / 0.070 s = 28.571
requests/s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.loads.farm_load import (
    ALONE,
    AROUND_S,
    CGI,
    UNEQUAL,
    CarriedRates,
    FarmLoad,
    chosen,
    dns_name,
    learning,
)
from lbdns_tools.lab.measuring.measured_case import MeasuredOutcome
from lbdns_tools.lab.presets.arrival_ramp_report import sections
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from lbdns_tools.load.load_plan import ClosedLoop, OpenLoop

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

FARM: Final = "farm"
SERVER_FARM: Final = "server"
SELECTIONS: Final = ("round_robin", "best")
POSSIBLE: Final = (*SELECTIONS, "best_score", "weighted", "least_charged", "two_choices")
FIRST, LAST = 0.05, 1.5  # the ramp's first and last rates, as shares of the rate that best carries
RAMP_S: Final = 120.0
QUICK_RAMP_S: Final = 25.0

#: Slightly less than two processors: a quota of all processors is no limit, and the agent would then report the load of
#: the whole machine
SERVER: Final = LabFarm((WebHost("server", 1.99),))
PAGE: Final = "/cgi-bin/work?ms=70"
#: Shares of 2 / S, where S is the response time for a single client; the last exceeds the capacity
LOADS: Final = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.15)
QUICK_LOADS: Final = (0.3, 0.6, 1.15)
LOAD_S: Final = 25.0
QUICK_LOAD_S: Final = 8.0
ONE_S: Final = 15.0
QUICK_ONE_S: Final = 5.0


def plan(settings: StudySettings, farm: LabFarm | None) -> StudyPlan:
    """Return the study's steps. The service-time part always has its own farm, because M/M/c needs whole processors."""
    selections = chosen(settings.selections, POSSIBLE, SELECTIONS)
    farm = farm or LabFarm(UNEQUAL)
    steps = (*_ramp_steps(settings, selections), *_service_steps(settings))
    return StudyPlan({FARM: farm, SERVER_FARM: SERVER}, steps, partial(sections, farm=farm, server=SERVER))


def _ramp_steps(settings: StudySettings, selections: tuple[str, ...]) -> Iterator[StudyStep]:
    loading, carried = FarmLoad(settings, CGI, "cgi"), CarriedRates()

    def ramp(lab: Lab, selection: str, repetition: int) -> Iterable[MeasuredOutcome]:
        rates = (FIRST * carried["best"], LAST * carried["best"])
        load = OpenLoop(rates, seconds, "poisson", ramp=True)
        lab.settle()
        yield loading(lab, selection, load, farm=FARM, more={"part": "ramp"}, repetition=repetition)

    seconds, around = loading.seconds(RAMP_S, QUICK_RAMP_S), loading.warm_up_s + AROUND_S
    yield learning(FARM, loading.workload, loading.mix(dns_name("best")), settings)
    yield loading.calibration_step("best", carried, FARM)
    for repetition in range(1, settings.repetitions + 1):
        for selection in selections:
            # Outstanding requests are awaited at the end
            length = seconds + around + loading.timeout_s
            do = partial(ramp, selection=selection, repetition=repetition)
            yield StudyStep(f"{selection}, ramp", FARM, length, do)


def _service_steps(settings: StudySettings) -> Iterator[StudyStep]:
    loading, measured = FarmLoad(replace(settings, seconds=None), PAGE, "work 70 ms"), CarriedRates()

    def one_client(lab: Lab) -> Iterable[MeasuredOutcome]:
        outcome = loading(lab, ALONE, ClosedLoop(1, one_s), farm=SERVER_FARM, more={"part": "service"})
        measured.learn(ALONE, outcome)
        yield outcome

    def at_load(lab: Lab, load: float, repetition: int) -> Iterable[MeasuredOutcome]:
        cores = round(lab.farm.hosts[0].cpu)
        # A single client that repeats its request at once gets 1 / S requests/s
        rate = load * cores * measured[ALONE]
        lab.settle()
        more: dict[str, str | float] = {"part": "load", "load": load}
        yield loading(
            lab, ALONE, OpenLoop((rate,), load_s, "poisson"), farm=SERVER_FARM, more=more, repetition=repetition
        )

    one_s, load_s = loading.seconds(ONE_S, QUICK_ONE_S), loading.seconds(LOAD_S, QUICK_LOAD_S)
    around = loading.warm_up_s + AROUND_S
    yield StudyStep("one client, 70 ms of CPU", SERVER_FARM, one_s + around, one_client, needed=True)
    for repetition in range(1, settings.repetitions + 1):
        for load in QUICK_LOADS if settings.quick else LOADS:
            do = partial(at_load, load=load, repetition=repetition)
            yield StudyStep(f"{100 * load:g} % of its capacity", SERVER_FARM, load_s + around, do)


PRESET: Final = StudyPreset(
    "ramp",
    "Ramp: a rising rate, and the capacity of one server",
    """Compare best with round robin while the rate rises beyond the farm's capacity, and compare one server's response
    times with queueing theory.""",
    plan,
)
