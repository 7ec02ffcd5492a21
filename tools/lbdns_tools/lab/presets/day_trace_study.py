"""The study ``trace``: the cloud study's day compressed to minutes, and the load of the reactive scaler's study.

Both are scaled to a peak rate of nine tenths of the rate that best carries, which is measured first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import AROUND_S, CGI, UNEQUAL, CarriedRates, FarmLoad, chosen, dns_name, learning
from lbdns_tools.lab.loads.load_shapes import compressed_day, scaler_phases
from lbdns_tools.lab.measuring.measured_case import MeasuredOutcome
from lbdns_tools.lab.presets.day_trace_report import sections
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from lbdns_tools.load.load_plan import LoadPhase
from lbdns_tools.load.request_mix import RequestMix

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

FARM: Final = "farm"
SELECTIONS: Final = ("round_robin", "best")
POSSIBLE: Final = (*SELECTIONS, "best_score", "weighted", "least_charged", "two_choices")
HIGHEST: Final = 0.9  # of the rate that best carries
DAY_S: Final = 180.0
QUICK_DAY_S: Final = 36.0
SCALER_S: Final = 90.0  # 1200 s in the study
QUICK_SCALER_S: Final = 18.0


def plan(settings: StudySettings, farm: LabFarm | None) -> StudyPlan:
    """Return the study's steps: learning, calibration, then day and scaler load. Raises ConfigError."""
    selections = chosen(settings.selections, POSSIBLE, SELECTIONS)
    farm = farm or LabFarm(UNEQUAL)
    loading, carried = FarmLoad(settings, CGI, "cgi"), CarriedRates()

    def day(lab: Lab, selection: str, repetition: int) -> Iterable[MeasuredOutcome]:
        load = compressed_day(HIGHEST * carried["best"], day_s)
        lab.settle()
        yield loading(lab, selection, load, farm=FARM, more={"part": "day"}, repetition=repetition)

    def scaler(lab: Lab, selection: str, repetition: int) -> Iterable[MeasuredOutcome]:
        def phases(mix: RequestMix, begin_s: float) -> tuple[LoadPhase, ...]:
            return scaler_phases(mix, HIGHEST * carried["best"], scaler_s, begin_s)

        lab.settle()
        yield loading(lab, selection, phases, farm=FARM, more={"part": "scaler"}, repetition=repetition)

    day_s, scaler_s = loading.seconds(DAY_S, QUICK_DAY_S), loading.seconds(SCALER_S, QUICK_SCALER_S)
    around = loading.warm_up_s + AROUND_S
    steps = [
        learning(FARM, loading.workload, loading.mix(dns_name("best")), settings),
        loading.calibration_step("best", carried, FARM),
    ]
    parts: tuple[tuple[str, float, Callable[..., Iterable[MeasuredOutcome]]], ...] = (
        ("day", day_s, day), ("scaler", scaler_s, scaler),
    )  # fmt: skip
    for name, seconds, do in parts:
        for repetition in range(1, settings.repetitions + 1):
            for selection in selections:
                what = partial(do, selection=selection, repetition=repetition)
                steps.append(StudyStep(f"{selection}, {name}", FARM, seconds + around, what))
    return StudyPlan({FARM: farm}, tuple(steps), partial(sections, farm=farm))


PRESET: Final = StudyPreset(
    "trace",
    "Trace: a day within minutes",
    "Compare best with round robin under the cloud study's day and the reactive scaler's load, compressed in time.",
    plan,
)
