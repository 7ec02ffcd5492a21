"""The study ``other-loads``, which compares ``best``, ``round_robin`` and ``best_score`` under disturbances.

The disturbances are programs that compete with web servers for CPU or disk, failures of web servers and hosts, a flash
crowd, and caching resolvers. If a disturbance affects a single host, the study selects the host with the highest CPU
limit. Losing this host has the greatest impact, because ``best`` sends it the most requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_tools.lab.farm.lab_farm import HTTP_PORT, LabFarm
from lbdns_tools.lab.loads.farm_load import (
    ALONE,
    CALIBRATION_CLIENTS,
    FARM,
    STATIC,
    UNEQUAL,
    FarmLoad,
    chosen,
    strongest,
)
from lbdns_tools.lab.loads.load_shapes import FlashCrowd
from lbdns_tools.lab.loads.noisy_neighbours import SHELLS, burners, filesystem, shells, writers
from lbdns_tools.lab.loads.scheduled_events import ScheduledEvent, ScheduledEvents, first_given, last_given
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome, answers
from lbdns_tools.lab.programs import php_content
from lbdns_tools.lab.report.other_loads_report import sections, shell_part
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from lbdns_tools.load.load_plan import ClosedLoop, OpenLoop

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

HONEST: Final = "resolvers"
KEEPING: Final = "keeping resolvers"
CACHES: Final = "php"
UNWATCHED: Final = "without checks"  # no member check, and agents that do not watch their web servers
CHECKED: Final = "with checks"
CHECK: Final = f"tcp:{HTTP_PORT}"
SELECTIONS: Final = ("round_robin", "best", "best_score")
QUICK_SELECTIONS: Final = ("round_robin", "best")
#: The usual load, as a share of the rate that round robin carries undisturbed, so that no selection struggles before
#: the disturbance
USUAL: Final = 0.5
#: The usual load before a crowd, as a share of the rate that best carries. Ten times this load is below that rate, but
#: over twice the rate that round robin carries
CROWD_USUAL: Final = 0.08
CROWD: Final = FlashCrowd(30, 10, 5)
QUICK_CROWD: Final = FlashCrowd(9, 3, 3)
NEIGHBOURS_S: Final = 15.0
CACHES_S: Final = 10.0
QUICK_NEIGHBOURS_S: Final = 3.0
DEATH_S: Final = 36.0  # the host runs for the first third, is dead for the second, and runs again for the last
QUICK_DEATH_S: Final = 9.0
#: s for which resolvers keep answers although the TTL is 0, and length of the measurement
MIN_TTL, MIN_TTL_S = 30, 75.0
QUICK_MIN_TTL, QUICK_MIN_TTL_S = 4, 10.0
RESOLVERS: Final = 2
WRITTEN: Final = 2  # hosts with a disk writer


def plan(settings: StudySettings, farm: LabFarm | None) -> StudyPlan:
    """Return the study's steps, which use one farm without resolvers and several farms with resolvers. Raises
    ConfigError."""
    selections = chosen(settings.selections, SELECTIONS, QUICK_SELECTIONS if settings.quick else SELECTIONS)
    plain = farm or LabFarm(UNEQUAL)
    # A client host uses a single resolver, so there must be as many client hosts as resolvers
    honest = replace(plain, clients=max(RESOLVERS, plain.clients), resolvers=RESOLVERS, resolver_min_ttl=0)
    keeping = replace(honest, resolver_min_ttl=QUICK_MIN_TTL if settings.quick else MIN_TTL)
    # --quick omits, among others, resolvers that obey the TTL, since they hardly change the results
    more = {
        HONEST: honest,
        UNWATCHED: replace(plain, alarms=False, check="off"),
        CHECKED: replace(plain, alarms=True, check=CHECK),
        CACHES: replace(plain, php=True),
    }
    farms = {FARM: plain, **({} if settings.quick else more), KEEPING: keeping}
    steps = tuple(_steps(FarmLoad(settings, STATIC, "1k"), selections))
    return StudyPlan(farms, steps, partial(sections, farm=plain, min_ttl=keeping.resolver_min_ttl))


def _steps(loading: FarmLoad, selections: tuple[str, ...]) -> Iterator[StudyStep]:
    quick, steps = loading.settings.quick, partial(loading.steps, selections)
    beside_s, death_s = loading.seconds(NEIGHBOURS_S, QUICK_NEIGHBOURS_S), loading.seconds(DEATH_S, QUICK_DEATH_S)
    min_ttl_s, crowd = loading.seconds(MIN_TTL_S, QUICK_MIN_TTL_S), QUICK_CROWD if quick else CROWD
    yield loading.learning_step()
    for selection in ("round_robin", "best"):
        yield loading.calibration_step(selection)
    yield from steps("burners", beside_s, partial(_burners, loading, beside_s))
    if not quick:
        yield from steps("nothing else", beside_s, partial(_undisturbed, loading, beside_s, "quiet", FARM))
        yield from steps("disk writers", beside_s, partial(_writers, loading, beside_s))
        for count in SHELLS:
            yield from steps(shell_part(count), beside_s, partial(_shells, loading, beside_s, count))
    if quick:
        yield from _deaths(loading, steps, death_s, FARM)
    yield from steps("a flash crowd", float(crowd.seconds), partial(_crowd, loading, crowd))
    if not quick:
        for farm in (UNWATCHED, CHECKED):
            yield loading.learning_step(farm)
            yield from _deaths(loading, steps, death_s, farm)
        yield loading.learning_step(HONEST)
        yield from steps("resolvers", beside_s, partial(_undisturbed, loading, beside_s, "resolvers", HONEST), HONEST)
        yield from _cache_steps(loading.settings, selections)
    yield loading.learning_step(KEEPING)
    do = partial(_undisturbed, loading, min_ttl_s, "keeping", KEEPING)
    yield from steps("resolvers that keep", min_ttl_s, do, KEEPING)


def _deaths(
    loading: FarmLoad, steps: Callable[..., Iterator[StudyStep]], seconds: float, farm: str
) -> Iterator[StudyStep]:
    suffix = "" if farm == FARM else f" {farm}"
    for what, with_agent in (("a web server dies", False), ("a host dies", True)):
        yield from steps(f"{what}{suffix}", seconds, partial(_dies, loading, seconds, with_agent, farm), farm)


def _cache_steps(settings: StudySettings, selections: tuple[str, ...]) -> Iterator[StudyStep]:
    """Yield the steps with a PHP page without and with caches: one client of the strongest host, and many clients."""
    for name, path in php_content.PAGES.items():
        loading = FarmLoad(settings, path, name)
        seconds = loading.seconds(CACHES_S, CACHES_S)
        yield loading.learning_step(CACHES)
        do = partial(_caches, loading, seconds)
        for step in loading.steps((ALONE, *selections), f"PHP, {name}", seconds, do, CACHES):
            yield replace(step, relies_on="")


def _caches(loading: FarmLoad, seconds: float, lab: Lab, selection: str, repetition: int) -> Iterable[MeasuredOutcome]:
    lab.settle()
    load = ClosedLoop(1 if selection == ALONE else CALIBRATION_CLIENTS, seconds)
    yield loading(lab, selection, load, {"part": "caches"}, farm=CACHES, repetition=repetition)


def _usual(loading: FarmLoad, seconds: float) -> OpenLoop:
    return OpenLoop((USUAL * loading.carried["round_robin"],), seconds, "poisson")


def _undisturbed(
    loading: FarmLoad, seconds: float, part: str, farm: str, lab: Lab, selection: str, repetition: int
) -> Iterable[MeasuredOutcome]:
    """Measure the usual load without a disturbance. If the farm has resolvers, clients query them."""
    load = _usual(loading, seconds)
    lab.settle()
    with nullcontext() if farm == FARM else lab.resolve_by("resolvers"):
        yield loading(lab, selection, load, {"part": part}, farm=farm, repetition=repetition)


def _burners(loading: FarmLoad, seconds: float, lab: Lab, selection: str, repetition: int) -> Iterable[MeasuredOutcome]:
    host = strongest(lab.farm).name
    lab.settle()
    with burners(lab, host, seconds + loading.warm_up_s):
        more = {"part": "burners", "host": host}
        yield loading(lab, selection, _usual(loading, seconds), more, repetition=repetition)


def _shells(
    loading: FarmLoad, seconds: float, count: int, lab: Lab, selection: str, repetition: int
) -> Iterable[MeasuredOutcome]:
    host = strongest(lab.farm).name
    lab.settle()
    with shells(lab, host, count, seconds + loading.warm_up_s):
        more = {"part": shell_part(count), "host": host}
        yield loading(lab, selection, _usual(loading, seconds), more, repetition=repetition)


def _writers(loading: FarmLoad, seconds: float, lab: Lab, selection: str, repetition: int) -> Iterable[MeasuredOutcome]:
    hosts = tuple(host.name for host in sorted(lab.farm.hosts, key=lambda host: -host.cpu)[:WRITTEN])
    lab.settle()
    with writers(lab, hosts, seconds + loading.warm_up_s):
        more = {"part": "writers", "host": " ".join(hosts), "filesystem": filesystem(lab.folder)}
        yield loading(lab, selection, _usual(loading, seconds), more, repetition=repetition)


def _dies(
    loading: FarmLoad, seconds: float, with_agent: bool, farm: str, lab: Lab, selection: str, repetition: int
) -> Iterable[MeasuredOutcome]:
    host = strongest(lab.farm).name
    name = "host dies" if with_agent else "web dies"
    more: dict[str, str | float] = {"part": f"{name} checked" if farm == CHECKED else name, "host": host}
    lab.settle()
    with _mortal(lab, host, with_agent) as (die, come_back):
        events = [
            ScheduledEvent(loading.warm_up_s + seconds / 3, "died", die),
            ScheduledEvent(loading.warm_up_s + 2 * seconds / 3, "back", come_back),
        ]
        with ScheduledEvents(events, lambda: answers(lab.status())) as schedule:
            outcome = loading(lab, selection, _usual(loading, seconds), more, farm=farm, repetition=repetition)
        yield replace(outcome, case=replace(outcome.case, more={**more, **_death_times(schedule, host, outcome)}))


@contextmanager
def _mortal(lab: Lab, host: str, with_agent: bool) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """Yield two functions: the first kills the host, and the second restarts it. On exit, a killed host is
    restarted."""
    with ExitStack() as stack:

        def die() -> None:
            lab.stop_web(host, kill=True)
            stack.callback(lab.start_web, host)
            if with_agent:
                lab.stop_agent(host, kill=True)
                stack.callback(lab.start_agent, host)

        yield die, stack.close


def _death_times(schedule: ScheduledEvents, host: str, outcome: MeasuredOutcome) -> dict[str, float]:
    """Return, in seconds, when the host failed and recovered, and how long the answers took to reflect each event."""
    died, back, begun = schedule.done.get("died"), schedule.done.get("back"), outcome.row.begun or 0.0
    found: dict[str, float | None] = {}
    if died is not None:
        seen = [look for look in schedule.seen if back is None or look[0] <= back]
        found = {"died_s": died - begun, "handed_out_for_s": last_given(seen, host, died)}
    if back is not None:
        found |= {"back_s": back - begun, "handed_out_after_s": first_given(schedule.seen, host, back)}
    return {name: seconds for name, seconds in found.items() if seconds is not None}


def _crowd(
    loading: FarmLoad, crowd: FlashCrowd, lab: Lab, selection: str, repetition: int
) -> Iterable[MeasuredOutcome]:
    begin_s, length_s = loading.warm_up_s + crowd.begin_s, float(crowd.length_s)
    load = crowd.load(CROWD_USUAL * loading.carried["best"])
    lab.settle()
    more: dict[str, str | float] = {"part": "crowd", "begin_s": begin_s, "length_s": length_s}
    yield loading(lab, selection, load, more, repetition=repetition)


PRESET: Final = StudyPreset(
    "other-loads",
    "Other loads: noisy neighbours, failures, flash crowds, resolvers",
    """Compare 'best' with 'round_robin' while CPU burners, disk writers or shells that compile and search run, a server
    fails, a flash crowd arrives, or clients use caching resolvers.""",
    plan,
)
