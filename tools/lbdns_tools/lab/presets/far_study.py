"""The study ``far``, in which clients, DNS server and web hosts are far from each other, and reports are late or lost.

Its first part varies the round trip and the loss of packets, for clients that choose for each connection or at
WebStone's intervals. The other parts vary what the DNS server knows: the interval of reports, their delay, and the
share of them that is lost, once with a steady rate of requests and once with a crowd.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

from lbdns_shared.errors import ConfigError
from lbdns_tools.lab.farm.lab_farm import NAMES, LabFarm
from lbdns_tools.lab.loads.farm_load import CGI, FARM, UNEQUAL, FarmLoad, chosen
from lbdns_tools.lab.loads.load_shapes import FlashCrowd
from lbdns_tools.lab.machines.link_distances import LinkDistances
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report.far_report import CROWD, DISTANCES, STEADY, sections
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from lbdns_tools.load.load_plan import ClosedLoop, OpenLoop, ResolveMode

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

SELECTIONS: Final = ("round_robin", "best", "best_score")
QUICK_SELECTIONS: Final = ("round_robin", "best")
#: A local network, a country, and another continent
ROUND_TRIPS_S: Final = (0.0002, 0.02, 0.08)
LOSSES: Final = (0.0, 0.01)
RESOLVES: Final[tuple[ResolveMode, ...]] = ("connection", "webstone")
QUICK_POINTS: Final[tuple[tuple[ResolveMode, float, float], ...]] = (("connection", 0.08, 0.01),)
CLIENTS: Final = 40
DISTANCES_S, QUICK_DISTANCES_S = 10.0, 4.0
#: s; at WebStone's intervals, every client has chosen again after 5 s
WARM_UP_S, QUICK_WARM_UP_S = 5.0, 3.0
#: The rate of requests while reports are late or lost, as a share of the rate that ``best`` sustains
STEADY_LOAD: Final = 0.7
STEADY_S, QUICK_STEADY_S = 13.0, 5.0
#: A crowd that the farm can serve, but not the host to which most of the requests went before it came
CROWD_USUAL: Final = 0.2
CROWD_SHAPE: Final = FlashCrowd(18, 6, 6, 4.5)


@dataclass(frozen=True, slots=True)
class ReportCondition:
    """What happens to the reports of a farm: the agents' ``interval`` (s), and the distances."""

    interval: float = 1.0
    distances: LinkDistances = field(default_factory=LinkDistances)

    @property
    def farm(self) -> str:
        """The name of the study's farm whose agents have this interval."""
        return FARM if self.interval == 1.0 else f"reports every {self.interval:g} s"

    def columns(self) -> dict[str, str | float]:
        """Return the columns of results.csv that describe the condition."""
        return {
            "round_trip_ms": 1000 * self.distances.round_trip_s,
            "loss_percent": 100 * self.distances.loss,
            "report_interval_s": self.interval,
            "report_delay_s": self.distances.round_trip_s / 2 + self.distances.report_delay_s,
            "report_loss_percent": 100 * self.distances.condition("web", "dns").loss,
        }


#: By the words for the steps' names. All have the round trip of a country
_COUNTRY: Final = LinkDistances(0.02)
REPORTS: Final = {
    "reports every 1 s": ReportCondition(1.0, _COUNTRY),
    "10 % of reports lost": ReportCondition(1.0, replace(_COUNTRY, report_loss=0.1)),
    "30 % of reports lost": ReportCondition(1.0, replace(_COUNTRY, report_loss=0.3)),
    "reports 1 s late": ReportCondition(1.0, replace(_COUNTRY, report_delay_s=1.0)),
    "reports every 0.25 s": ReportCondition(0.25, _COUNTRY),
    "reports every 5 s": ReportCondition(5.0, _COUNTRY),
}
QUICK_REPORTS: Final = ("30 % of reports lost",)


def plan(settings: StudySettings, farm: LabFarm | None) -> StudyPlan:
    """Return the study's steps. Raises ConfigError if the farm has sites, because these have distances of their own."""
    if farm and farm.sites:
        raise ConfigError("--farm: the study far sets the distances itself; remove the sites of the hosts")
    usual = QUICK_SELECTIONS if settings.quick else SELECTIONS
    selections = chosen(settings.selections, tuple(NAMES.values()), usual)
    farm = replace(farm or LabFarm(UNEQUAL), interval=1.0)
    if settings.warm_up_s is None:
        settings = replace(settings, warm_up_s=QUICK_WARM_UP_S if settings.quick else WARM_UP_S)
    loading = FarmLoad(settings, CGI, "cgi")
    conditions = [condition for name, condition in REPORTS.items() if not settings.quick or name in QUICK_REPORTS]
    farms = {FARM: farm} | {each.farm: replace(farm, interval=each.interval) for each in conditions}
    steps = (
        loading.learning_step(),
        replace(loading, settings=replace(settings, warm_up_s=None)).calibration_step("best"),
        *_distance_steps(loading, selections),
        *_report_steps(loading, selections),
    )
    return StudyPlan(farms, steps, partial(sections, hosts=farm.host_names))


def _distance_steps(loading: FarmLoad, selections: tuple[str, ...]) -> Iterator[StudyStep]:
    quick, seconds = loading.settings.quick, loading.seconds(DISTANCES_S, QUICK_DISTANCES_S)
    points = QUICK_POINTS if quick else product(RESOLVES, ROUND_TRIPS_S, LOSSES)
    for resolve, round_trip_s, loss in points:
        condition = ReportCondition(distances=LinkDistances(round_trip_s, loss))
        name = f"{resolve}, {1000 * round_trip_s:g} ms, {100 * loss:g} % lost"
        load = ClosedLoop(CLIENTS, seconds)
        do = partial(_measured, replace(loading, resolve=resolve), condition, DISTANCES, load)
        yield from loading.steps(selections, name, seconds, do)


def _report_steps(loading: FarmLoad, selections: tuple[str, ...]) -> Iterator[StudyStep]:
    quick, seconds = loading.settings.quick, loading.seconds(STEADY_S, QUICK_STEADY_S)
    lengths = {STEADY: seconds} if quick else {STEADY: seconds, CROWD: float(CROWD_SHAPE.seconds)}
    farm = FARM
    for name, condition in REPORTS.items():
        if quick and name not in QUICK_REPORTS:
            continue
        if condition.farm != farm:
            farm = condition.farm
            yield loading.learning_step(farm)
        # Round robin uses no reports, so that one condition suffices for it
        with_reports = tuple(each for each in selections if each != "round_robin")
        for part, length in lengths.items():
            do = partial(_measured, loading, condition, part, None if part == CROWD else seconds)
            among = selections if quick or name == next(iter(REPORTS)) else with_reports
            yield from loading.steps(among, f"{part}, {name}", length + 2 * condition.interval, do, farm)


def _measured(
    loading: FarmLoad,
    condition: ReportCondition,
    part: str,
    load: ClosedLoop | float | None,
    lab: Lab,
    selection: str,
    repetition: int,
) -> Iterable[MeasuredOutcome]:
    """Measure one selection under a condition. ``load`` is the length (s) of a steady load, or None for the crowd."""
    more: dict[str, str | float] = {"part": part, **condition.columns()}
    asked: ClosedLoop | OpenLoop
    if load is None:
        asked = CROWD_SHAPE.load(CROWD_USUAL * loading.carried["best"])
        more |= {"begin_s": loading.warm_up_s + CROWD_SHAPE.begin_s, "length_s": float(CROWD_SHAPE.length_s)}
    elif isinstance(load, ClosedLoop):
        asked = load
    else:
        asked = OpenLoop((STEADY_LOAD * loading.carried["best"],), load, "poisson")
    lab.settle()
    with lab.distances(condition.distances):
        yield loading(lab, selection, asked, more, farm=condition.farm, repetition=repetition)


PRESET: Final = StudyPreset(
    "far",
    "Far away: distances between clients, DNS server and hosts, and reports that are late or lost",
    """Compare 'best' and 'best_score' with 'round_robin' while packets between clients, DNS server and web hosts take
    0.1 to 40 ms in each direction and up to 1 % of them are lost, and while reports come less often, late or not at
    all.""",
    plan,
)
