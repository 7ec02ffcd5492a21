"""The study ``other-loads``: best, round robin and best_score under disturbances.

CPU burners and disk writers compete with a host's web server; a web server or a whole host dies and comes back; a flash
crowd arrives; caching resolvers stand between clients and lbdns. Disturbances of a single host hit the one with the
most CPU, which receives the most requests from best and whose loss matters most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import (
    AROUND_S,
    STATIC,
    UNEQUAL,
    CarriedRates,
    FarmLoad,
    chosen,
    dns_name,
    learning,
    strongest,
)
from lbdns_tools.lab.loads.load_shapes import FlashCrowd
from lbdns_tools.lab.loads.noisy_neighbours import burners, filesystem, writers
from lbdns_tools.lab.loads.scheduled_events import ScheduledEvent, ScheduledEvents, first_given, last_given
from lbdns_tools.lab.measuring.case_measurement import answers
from lbdns_tools.lab.measuring.measured_case import MeasuredOutcome
from lbdns_tools.lab.presets.other_loads_report import sections
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from lbdns_tools.load.load_plan import OpenLoop

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

FARM: Final = "farm"
HONEST: Final = "resolvers"
KEEPING: Final = "keeping resolvers"
SELECTIONS: Final = ("round_robin", "best", "best_score")
QUICK_SELECTIONS: Final = ("round_robin", "best")
#: As a share of the rate that round robin carries undisturbed, so that no selection struggles before the disturbance
USUAL: Final = 0.5
#: As a share of the rate that best carries; ten times as much is below that rate, but over twice that of round robin
CROWD_USUAL: Final = 0.08
CROWD: Final = FlashCrowd(30, 10, 5)
QUICK_CROWD: Final = FlashCrowd(9, 3, 3)
NEIGHBOURS_S: Final = 15.0
QUICK_NEIGHBOURS_S: Final = 3.0
DEATH_S: Final = 36.0  # the host is there for the first third, gone for the second, and back for the last
QUICK_DEATH_S: Final = 9.0
#: s for which resolvers keep answers although the TTL is 0, and length of the measurement
MIN_TTL, MIN_TTL_S = 30, 75.0
QUICK_MIN_TTL, QUICK_MIN_TTL_S = 4, 10.0
RESOLVERS: Final = 2
WRITTEN: Final = 2  # hosts with a disk writer


@dataclass(frozen=True, slots=True)
class _OtherLoadsOptions:
    settings: StudySettings
    loading: FarmLoad
    carried: CarriedRates
    selections: tuple[str, ...]

    def seconds(self, usual: float, quick: float) -> float:
        return self.loading.seconds(usual, quick)

    def open(self, seconds: float) -> OpenLoop:
        return OpenLoop((USUAL * self.carried["round_robin"],), seconds, "poisson")

    def step(
        self, name: str, farm: str, seconds: float, do: Callable[..., Iterable[MeasuredOutcome]]
    ) -> Iterator[StudyStep]:
        """Yield a step for each selection and repetition."""
        seconds += self.loading.warm_up_s + AROUND_S
        relies_on = "" if farm == FARM else FARM  # whose carried rates all loads are shares of
        for repetition in range(1, self.settings.repetitions + 1):
            for selection in self.selections:
                what = partial(do, self, selection=selection, repetition=repetition)
                yield StudyStep(f"{selection}, {name}", farm, seconds, what, relies_on=relies_on)

    def undisturbed(self, name: str, part: str, farm: str, seconds: float) -> Iterator[StudyStep]:
        yield from self.step(name, farm, seconds, partial(_undisturbed, part=part, farm=farm, seconds=seconds))


def plan(settings: StudySettings, farm: LabFarm | None) -> StudyPlan:
    """Return the study's steps on a farm without and with resolvers. Raises ConfigError."""
    selections = chosen(settings.selections, SELECTIONS, QUICK_SELECTIONS if settings.quick else SELECTIONS)
    plain = farm or LabFarm(UNEQUAL)
    # A client host uses a single resolver, so there must be as many client hosts as resolvers
    honest = replace(plain, clients=max(RESOLVERS, plain.clients), resolvers=RESOLVERS, resolver_min_ttl=0)
    keeping = replace(honest, resolver_min_ttl=QUICK_MIN_TTL if settings.quick else MIN_TTL)
    # --quick omits, among others, resolvers that obey the TTL, which hardly differ from no resolver
    farms = {FARM: plain, **({} if settings.quick else {HONEST: honest}), KEEPING: keeping}
    options = _OtherLoadsOptions(settings, FarmLoad(settings, STATIC, "1k"), CarriedRates(), selections)
    return StudyPlan(farms, tuple(_steps(options)), partial(sections, farm=plain, min_ttl=keeping.resolver_min_ttl))


def _steps(options: _OtherLoadsOptions) -> Iterator[StudyStep]:
    mix = options.loading.mix(dns_name("best"))
    yield learning(FARM, options.loading.workload, mix, options.settings)
    for selection in ("round_robin", "best"):
        yield options.loading.calibration_step(selection, options.carried, FARM)
    neighbours_s = options.seconds(NEIGHBOURS_S, QUICK_NEIGHBOURS_S)
    yield from options.step("burners", FARM, neighbours_s, _burners)
    if not options.settings.quick:
        yield from options.undisturbed("nothing else", "quiet", FARM, neighbours_s)
        yield from options.step("disk writers", FARM, neighbours_s, _writers)
    death_s = options.seconds(DEATH_S, QUICK_DEATH_S)
    yield from options.step("a web server dies", FARM, death_s, partial(_dies, with_agent=False))
    yield from options.step("a host dies", FARM, death_s, partial(_dies, with_agent=True))
    yield from options.step("a flash crowd", FARM, float(_crowd_of(options).seconds), _crowd)
    if not options.settings.quick:
        yield learning(HONEST, options.loading.workload, mix, options.settings)
        yield from options.undisturbed("resolvers", "resolvers", HONEST, neighbours_s)
    yield learning(KEEPING, options.loading.workload, mix, options.settings)
    yield from options.undisturbed(
        "resolvers that keep", "keeping", KEEPING, options.seconds(MIN_TTL_S, QUICK_MIN_TTL_S)
    )


def _crowd_of(options: _OtherLoadsOptions) -> FlashCrowd:
    return QUICK_CROWD if options.settings.quick else CROWD


def _undisturbed(
    options: _OtherLoadsOptions, lab: Lab, selection: str, repetition: int, *, part: str, farm: str, seconds: float
) -> Iterable[MeasuredOutcome]:
    """Measure the usual load alone; through resolvers on a farm of this study that has them."""
    load = options.open(seconds)
    lab.settle()
    with nullcontext() if farm == FARM else lab.resolve_by("resolvers"):
        yield options.loading(lab, selection, load, farm=farm, more={"part": part}, repetition=repetition)


def _burners(options: _OtherLoadsOptions, lab: Lab, selection: str, repetition: int) -> Iterable[MeasuredOutcome]:
    host = strongest(lab.farm)
    seconds = options.seconds(NEIGHBOURS_S, QUICK_NEIGHBOURS_S)
    lab.settle()
    with burners(lab, host, seconds + options.loading.warm_up_s):
        more = {"part": "burners", "host": host}
        yield options.loading(lab, selection, options.open(seconds), farm=FARM, more=more, repetition=repetition)


def _writers(options: _OtherLoadsOptions, lab: Lab, selection: str, repetition: int) -> Iterable[MeasuredOutcome]:
    hosts = tuple(host.name for host in sorted(lab.farm.hosts, key=lambda host: -host.cpu)[:WRITTEN])
    seconds = options.seconds(NEIGHBOURS_S, QUICK_NEIGHBOURS_S)
    lab.settle()
    with writers(lab, hosts, seconds + options.loading.warm_up_s):
        more = {"part": "writers", "host": " ".join(hosts), "filesystem": filesystem(lab.folder)}
        yield options.loading(lab, selection, options.open(seconds), farm=FARM, more=more, repetition=repetition)


def _dies(
    options: _OtherLoadsOptions, lab: Lab, selection: str, repetition: int, with_agent: bool
) -> Iterable[MeasuredOutcome]:
    """Kill the host after a third of the time, and bring it back after two thirds."""
    host, seconds = strongest(lab.farm), options.seconds(DEATH_S, QUICK_DEATH_S)
    part = "host dies" if with_agent else "web dies"
    lab.settle()
    with _mortal(lab, host, with_agent) as (die, come_back):
        events = [
            ScheduledEvent(options.loading.warm_up_s + seconds / 3, "died", die),
            ScheduledEvent(options.loading.warm_up_s + 2 * seconds / 3, "back", come_back),
        ]
        with ScheduledEvents(events, lambda: answers(lab.status())) as schedule:
            more: dict[str, str | float] = {"part": part, "host": host}
            load = options.open(seconds)
            outcome = options.loading(lab, selection, load, farm=FARM, more=more, repetition=repetition)
        yield replace(outcome, case=replace(outcome.case, more={**more, **_death_times(schedule, host, outcome)}))


@contextmanager
def _mortal(lab: Lab, host: str, with_agent: bool) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """Yield functions that kill the host and bring it back; on exit the host runs again in any case."""
    with ExitStack() as stack:

        def die() -> None:
            lab.stop_web(host, kill=True)
            stack.callback(lab.start_web, host)
            if with_agent:
                lab.stop_agent(host, kill=True)
                stack.callback(lab.start_agent, host)

        yield die, stack.close


def _death_times(schedule: ScheduledEvents, host: str, outcome: MeasuredOutcome) -> dict[str, float]:
    """Return when the host died and came back, and the delays until answers stopped and resumed naming it, in s."""
    found: dict[str, float] = {}
    begun = outcome.row.begun or 0.0
    for event, name, since in (("died", "died_s", last_given), ("back", "back_s", first_given)):
        moment = schedule.done.get(event)
        if moment is None:
            continue
        found[name] = moment - begun
        until = schedule.done.get("back") if event == "died" else None
        seen = [look for look in schedule.seen if until is None or look[0] <= until]
        passed = since(seen, host, moment)
        if passed is not None:
            found["handed_out_for_s" if event == "died" else "handed_out_after_s"] = passed
    return found


def _crowd(options: _OtherLoadsOptions, lab: Lab, selection: str, repetition: int) -> Iterable[MeasuredOutcome]:
    crowd = _crowd_of(options)
    more: dict[str, str | float] = {
        "part": "crowd",
        "begin_s": options.loading.warm_up_s + crowd.begin_s,
        "length_s": float(crowd.length_s),
    }
    lab.settle()
    load = crowd.load(CROWD_USUAL * options.carried["best"])
    yield options.loading(lab, selection, load, farm=FARM, more=more, repetition=repetition)


PRESET: Final = StudyPreset(
    "other-loads",
    "Other loads: neighbours, deaths, crowds, resolvers",
    """Compare best with round robin while CPU burners and disk writers run, a server dies, a flash crowd arrives, or
    caching resolvers stand in between.""",
    plan,
)
