"""Preset ``trace``: a day of the cloud study within minutes, and the load that the reactive scaler was shown with.

Both are scaled so that their highest rate is nine tenths of what best carries, which is measured first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import Farm
from lbdns_tools.lab.presets.learning import learning
from lbdns_tools.lab.presets.loading import AROUND_S, CGI, Carried, Loading
from lbdns_tools.lab.presets.points import UNEQUAL, chosen, dns_name
from lbdns_tools.lab.presets.preset import Preset, Settings, Step, Study
from lbdns_tools.lab.presets.shapes import compressed_day, scaler_phases
from lbdns_tools.lab.presets.trace_sections import sections
from lbdns_tools.load.mix import Mix
from lbdns_tools.load.plan import Phase

if TYPE_CHECKING:
    from lbdns_tools.lab.lab import Lab

FARM: Final = "farm"
SELECTIONS: Final = ("round_robin", "best")
POSSIBLE: Final = (*SELECTIONS, "best_score", "weighted", "least_charged", "two_choices")
HIGHEST: Final = 0.9  # of what best carries
DAY_S: Final = 180.0
QUICK_DAY_S: Final = 36.0
SCALER_S: Final = 90.0  # 1200 s in the study
QUICK_SCALER_S: Final = 18.0


def plan(settings: Settings, farm: Farm | None) -> Study:
    """Raises ConfigError."""
    selections = chosen(settings.selections, POSSIBLE, SELECTIONS)
    farm = farm or Farm(UNEQUAL)
    loading, carried = Loading(settings, CGI, "cgi"), Carried()

    def calibrate(lab: Lab) -> Iterable[Outcome]:
        lab.settle()
        yield loading.calibrate(lab, "best", carried, farm=FARM)

    def day(lab: Lab, selection: str, repetition: int) -> Iterable[Outcome]:
        load = compressed_day(HIGHEST * carried["best"], day_s)
        lab.settle()
        yield loading(lab, selection, load, farm=FARM, more={"part": "day"}, repetition=repetition)

    def scaler(lab: Lab, selection: str, repetition: int) -> Iterable[Outcome]:
        def phases(mix: Mix, begin_s: float) -> tuple[Phase, ...]:
            return scaler_phases(mix, HIGHEST * carried["best"], scaler_s, begin_s)

        lab.settle()
        yield loading(lab, selection, phases, farm=FARM, more={"part": "scaler"}, repetition=repetition)

    day_s, scaler_s = loading.seconds(DAY_S, QUICK_DAY_S), loading.seconds(SCALER_S, QUICK_SCALER_S)
    around = loading.warm_up_s + AROUND_S
    steps = [
        learning(FARM, loading.workload, loading.mix(dns_name("best")), settings),
        Step("what best carries", FARM, loading.seconds(8.0, 3.0) + around, calibrate, needed=True),
    ]
    parts: tuple[tuple[str, float, Callable[..., Iterable[Outcome]]], ...] = (
        ("day", day_s, day), ("scaler", scaler_s, scaler),
    )  # fmt: skip
    for name, seconds, do in parts:
        for repetition in range(1, settings.repetitions + 1):
            for selection in selections:
                what = partial(do, selection=selection, repetition=repetition)
                steps.append(Step(f"{selection}, {name}", FARM, seconds + around, what))
    return Study({FARM: farm}, tuple(steps), partial(sections, farm=farm))


PRESET: Final = Preset(
    "trace",
    "Trace: a day within minutes",
    "the cloud study's day and the reactive scaler's load, time compressed, best beside round robin",
    plan,
)
