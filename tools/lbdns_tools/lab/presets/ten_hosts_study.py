"""The study ``ten-hosts``, which runs the simulator's farms U10 and H10 in the lab, and simulates each measurement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools.lab.farm.lab_farm import NAMES, LabFarm
from lbdns_tools.lab.loads.farm_load import (
    AROUND_S,
    CALIBRATION_CLIENTS,
    CALIBRATION_S,
    CGI,
    QUICK_CALIBRATION_S,
    FarmLoad,
    chosen,
    strongest,
)
from lbdns_tools.lab.loads.noisy_neighbours import BURNERS, burners
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.presets.simulated_twin import SimulatedTwin, scaled_farm
from lbdns_tools.lab.report.outcome_index import ms_per_request_of
from lbdns_tools.lab.report.ten_hosts_report import BUSY, sections
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from lbdns_tools.load.load_plan import ClosedLoop, OpenLoop
from lbdns_tools.sim.simulation_scenario import FARMS

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

SELECTIONS: Final = ("round_robin", "best", "weighted", "best_score")
QUICK_SELECTIONS: Final = ("round_robin", "best")
#: The hosts of a farm have one core in total. The weakest host of H10 has 0.041 cores, which is 4 ms in each period
CPU: Final = 1.0
WORKERS: Final = 20
SIMULATED: Final = ("U10", "H10")
#: Rates as shares of the rate that ``best`` sustains
LOADS: Final = (0.5, 0.7, 0.85)
QUICK_LOADS: Final = (0.7,)
#: The load while busy loops run on the strongest host
BUSY_LOAD: Final = 0.5
CLIENTS: Final = 40
MEASURED_S, QUICK_MEASURED_S = 15.0, 5.0
SIMULATION_S: Final = 4.0  # that the simulations of a measurement take


@dataclass(slots=True)
class _FarmSteps:
    """The steps on one farm. The twin is known once the calibration has shown how much CPU time a request takes."""

    name: str
    loading: FarmLoad
    twin: SimulatedTwin
    measured_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.measured_s = self.loading.seconds(MEASURED_S, QUICK_MEASURED_S)

    def all(self, selections: tuple[str, ...]) -> Iterator[StudyStep]:
        quick = self.loading.settings.quick
        yield self.loading.learning_step(self.name)
        yield self._calibration()
        for share in QUICK_LOADS if quick else LOADS:
            yield from self._steps(selections, f"load {share:g}", share)
        if not quick:
            yield from self._steps(selections, f"{CLIENTS} clients", None)
            yield from self._steps(selections, BUSY, BUSY_LOAD)

    def _steps(self, selections: tuple[str, ...], part: str, share: float | None) -> Iterator[StudyStep]:
        do = partial(self._measured, part, share)
        yield from self.loading.steps(selections, f"{self.name}, {part}", self.measured_s + SIMULATION_S, do, self.name)

    def _calibration(self) -> StudyStep:
        quick = self.loading.settings.quick
        seconds = self.loading.seconds(CALIBRATION_S, QUICK_CALIBRATION_S)
        around = AROUND_S + (QUICK_CALIBRATION_S if quick else self.loading.warm_up_s)
        return StudyStep(f"{self.name}: the sustained rate with best", self.name, seconds + around,
                         partial(self._calibrate, seconds), needed=True)  # fmt: skip

    def _calibrate(self, seconds: float, lab: Lab) -> Iterable[MeasuredOutcome]:
        lab.settle()
        load = ClosedLoop(CALIBRATION_CLIENTS, seconds)
        outcome = self.loading(lab, "best", load, {"part": "carried"}, farm=self.name)
        self.loading.carried.learn("best", outcome)
        cost_ms = ms_per_request_of([outcome], self.twin.farm.host_names)
        if not cost_ms:
            raise LbdnsError("cannot simulate the farm: the CPU time per request was not measured")
        self.twin = replace(self.twin, request_cpu_s=cost_ms / 1000)
        yield outcome

    def _measured(
        self, part: str, share: float | None, lab: Lab, selection: str, repetition: int
    ) -> Iterable[MeasuredOutcome]:
        """Measure and simulate a load: a share of the sustained rate, or the clients that wait for responses."""
        load: ClosedLoop | OpenLoop = ClosedLoop(CLIENTS, self.measured_s)
        if share is not None:
            load = OpenLoop((share * self.loading.carried["best"],), self.measured_s, "poisson")
        is_busy, host = part == BUSY, strongest(lab.farm).name
        more: dict[str, str | float] = {"part": part, **({"host": host} if is_busy else {})}
        lab.settle()
        seconds = self.measured_s + self.loading.warm_up_s
        with burners(lab, host, seconds) if is_busy else nullcontext():
            outcome = self.loading(lab, selection, load, more, farm=self.name, repetition=repetition)
        simulated = self.twin.columns(selection, load, self.measured_s, BURNERS if is_busy else 0, host)
        yield replace(outcome, case=replace(outcome.case, more={**more, **simulated}))


def plan(settings: StudySettings, farm: LabFarm | None) -> StudyPlan:
    """Return the study's steps. Raises ConfigError if --farm is given, because the farms are those of the simulator."""
    if farm:
        raise ConfigError("--farm: the study ten-hosts measures the simulator's farms; omit --farm")
    usual = QUICK_SELECTIONS if settings.quick else SELECTIONS
    selections = chosen(settings.selections, tuple(NAMES.values()), usual)
    farms = {name: scaled_farm(name, CPU, WORKERS) for name in (SIMULATED[-1:] if settings.quick else SIMULATED)}
    steps: list[StudyStep] = []
    for name, each in farms.items():
        loading = FarmLoad(settings, CGI, "cgi")
        twin = SimulatedTwin(each, tuple(server.cores for server in FARMS[name]), 1.0, loading.warm_up_s)
        steps += _FarmSteps(name, loading, twin).all(selections)
    return StudyPlan(farms, tuple(steps), partial(sections, farms=farms))


PRESET: Final = StudyPreset(
    "ten-hosts",
    "Ten hosts: two farms of the simulator, in the lab and simulated",
    """Compare 'best', 'weighted' and 'best_score' with 'round_robin' on the simulator's farms U10 (ten equal hosts) and
    H10 (ten unequal hosts), scaled to one core in total, and simulate each measurement with lbdns-sim.""",
    plan,
)
