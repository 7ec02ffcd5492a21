"""The study ``trace``, which runs the cloud study's day and the reactive scaler's load, each compressed to a few
minutes.

The study first measures the rate that the farm sustains with ``best``. Both loads peak at 90 % of the sustained rate.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_tools.lab.farm.lab_farm import NAMES, LabFarm
from lbdns_tools.lab.loads.farm_load import CGI, FARM, UNEQUAL, FarmLoad, chosen
from lbdns_tools.lab.loads.load_shapes import compressed_day, scaler_phases
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report.day_trace_report import sections
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

SELECTIONS: Final = ("round_robin", "best")
HIGHEST: Final = 0.9  # of the rate that best carries
DAY_S: Final = 180.0
QUICK_DAY_S: Final = 36.0
SCALER_S: Final = 90.0  # 1200 s in the study
QUICK_SCALER_S: Final = 18.0


def plan(settings: StudySettings, farm: LabFarm | None) -> StudyPlan:
    """Return the study's steps: the learning load, calibration, and the two loads. Raises ConfigError."""
    selections = chosen(settings.selections, tuple(NAMES.values()), SELECTIONS)
    farm = farm or LabFarm(UNEQUAL)
    loading = FarmLoad(settings, CGI, "cgi")
    day_s, scaler_s = loading.seconds(DAY_S, QUICK_DAY_S), loading.seconds(SCALER_S, QUICK_SCALER_S)

    def day(lab: Lab, selection: str, repetition: int) -> Iterable[MeasuredOutcome]:
        load = compressed_day(HIGHEST * loading.carried["best"], day_s)
        lab.settle()
        yield loading(lab, selection, load, {"part": "day"}, repetition=repetition)

    def scaler(lab: Lab, selection: str, repetition: int) -> Iterable[MeasuredOutcome]:
        load = partial(scaler_phases, highest=HIGHEST * loading.carried["best"], seconds=scaler_s)
        lab.settle()
        yield loading(lab, selection, load, {"part": "scaler"}, repetition=repetition)

    steps = (
        loading.learning_step(),
        loading.calibration_step("best"),
        *loading.steps(selections, "day", day_s, day),
        *loading.steps(selections, "scaler", scaler_s, scaler),
    )
    return StudyPlan({FARM: farm}, steps, partial(sections, farm=farm))


PRESET: Final = StudyPreset(
    "trace",
    "Trace: a day's load, compressed to minutes",
    "Compare 'best' with 'round_robin' under two loads of the cloud study, each compressed to a few minutes. One "
    "load consists of a day's requests; the other reproduces the runs that demonstrated the reactive scaler.",
    plan,
)
