"""The study ``ramp``, which raises the rate beyond capacity and measures service times, as in the cloud study.

The study first measures the rate that the farm sustains with ``best``. The ramp then rises to 1.5 times the sustained
rate. To measure service times, clients request a page that requires 70 ms of CPU time, on a host with two processors.
In the cloud study, a server with two processors handles 2 / 0.070 s = 28.571 requests/s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_tools.lab.farm.lab_farm import NAMES, LabFarm, WebHost
from lbdns_tools.lab.loads.farm_load import ALONE, AROUND_S, CGI, FARM, UNEQUAL, FarmLoad, chosen
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report.arrival_ramp_report import sections
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from lbdns_tools.load.load_plan import ClosedLoop, OpenLoop

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

SERVER_FARM: Final = "server"
SELECTIONS: Final = ("round_robin", "best")
FIRST, LAST = 0.05, 1.5  # the ramp's first and last rates, as shares of the rate that best carries
RAMP_S: Final = 120.0
QUICK_RAMP_S: Final = 25.0

#: Slightly less than two processors: a quota of all processors would set no limit, and the agent would then report the
#: load of the whole machine
SERVER: Final = LabFarm((WebHost("server", 1.99),))
PAGE: Final = "/cgi-bin/work?ms=70"
#: Shares of 2 / S, where S is the response time for a single client; the last share exceeds the capacity
LOADS: Final = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.15)
QUICK_LOADS: Final = (0.3, 0.6, 1.15)
LOAD_S: Final = 25.0
QUICK_LOAD_S: Final = 8.0
ONE_S: Final = 15.0
QUICK_ONE_S: Final = 5.0


def plan(settings: StudySettings, farm: LabFarm | None) -> StudyPlan:
    """Return the study's steps. Service times are always measured on a separate farm, because the M/M/c model assumes
    whole processors."""
    selections = chosen(settings.selections, tuple(NAMES.values()), SELECTIONS)
    farm = farm or LabFarm(UNEQUAL)
    steps = (*_ramp_steps(settings, selections), *_service_steps(settings))
    return StudyPlan({FARM: farm, SERVER_FARM: SERVER}, steps, partial(sections, farm=farm, server=SERVER))


def _ramp_steps(settings: StudySettings, selections: tuple[str, ...]) -> Iterator[StudyStep]:
    loading = FarmLoad(settings, CGI, "cgi")
    seconds = loading.seconds(RAMP_S, QUICK_RAMP_S)

    def ramp(lab: Lab, selection: str, repetition: int) -> Iterable[MeasuredOutcome]:
        rates = (FIRST * loading.carried["best"], LAST * loading.carried["best"])
        load = OpenLoop(rates, seconds, "poisson", ramp=True)
        lab.settle()
        yield loading(lab, selection, load, {"part": "ramp"}, repetition=repetition)

    yield loading.learning_step()
    yield loading.calibration_step("best")
    # At the end, the measurement waits for outstanding requests
    yield from loading.steps(selections, "ramp", seconds + loading.timeout_s, ramp)


def _service_steps(settings: StudySettings) -> Iterator[StudyStep]:
    loading = FarmLoad(replace(settings, seconds=None), PAGE, "work 70 ms")
    one_s, load_s = loading.seconds(ONE_S, QUICK_ONE_S), loading.seconds(LOAD_S, QUICK_LOAD_S)

    def one_client(lab: Lab) -> Iterable[MeasuredOutcome]:
        outcome = loading(lab, ALONE, ClosedLoop(1, one_s), {"part": "service"}, farm=SERVER_FARM)
        loading.carried.learn(ALONE, outcome)
        yield outcome

    def at_load(lab: Lab, share: float, repetition: int) -> Iterable[MeasuredOutcome]:
        # A single client that sends its next request immediately after each response achieves 1 / S requests/s
        rate = share * round(lab.farm.hosts[0].cpu) * loading.carried[ALONE]
        load = OpenLoop((rate,), load_s, "poisson")
        more: dict[str, str | float] = {"part": "load", "load": share}
        lab.settle()
        yield loading(lab, ALONE, load, more, farm=SERVER_FARM, repetition=repetition)

    around = loading.warm_up_s + AROUND_S
    yield StudyStep("one client, 70 ms of CPU time", SERVER_FARM, one_s + around, one_client, needed=True)
    for repetition in range(1, settings.repetitions + 1):
        for share in QUICK_LOADS if settings.quick else LOADS:
            do = partial(at_load, share=share, repetition=repetition)
            yield StudyStep(f"{100 * share:g} % of the capacity", SERVER_FARM, load_s + around, do)


PRESET: Final = StudyPreset(
    "ramp",
    "Ramp: a rising request rate, and the capacity of one server",
    """Compare 'best' with 'round_robin' while the request rate rises beyond the farm's capacity. Compare the response
    times of a single server with those that queueing theory predicts.""",
    plan,
)
