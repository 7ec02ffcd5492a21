"""Preset ``other_loads``: what else can happen to a farm. best beside round robin, and the literal rule of 1999.

Other programs take the processor of a host, or its disk; a web server dies and comes back, a whole host too; a crowd
comes; caching resolvers stand between the clients and lbdns. Whatever happens to one host happens to the one with the
most CPU: it has to be missed, and best sends most to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import Farm
from lbdns_tools.lab.measuring import answers
from lbdns_tools.lab.presets.happenings import Event, Happenings, first_given, last_given
from lbdns_tools.lab.presets.learning import learning
from lbdns_tools.lab.presets.loading import AROUND_S, STATIC, Carried, Loading, strongest
from lbdns_tools.lab.presets.neighbours import burners, filesystem, writers
from lbdns_tools.lab.presets.other_loads_sections import sections
from lbdns_tools.lab.presets.points import UNEQUAL, chosen, dns_name
from lbdns_tools.lab.presets.preset import Preset, Settings, Step, Study
from lbdns_tools.lab.presets.shapes import Crowd
from lbdns_tools.load.plan import Open

if TYPE_CHECKING:
    from lbdns_tools.lab.lab import Lab

FARM: Final = "farm"
HONEST: Final = "resolvers"
KEEPING: Final = "keeping resolvers"
SELECTIONS: Final = ("round_robin", "best", "best_score")
QUICK_SELECTIONS: Final = ("round_robin", "best")
#: Of what round robin carries on the farm when it is left alone: no selection has trouble before something happens
USUAL: Final = 0.5
#: Of what best carries; ten times as much is still less than that, but more than twice what round robin carries
CROWD_USUAL: Final = 0.08
CROWD: Final = Crowd(30, 10, 5)
QUICK_CROWD: Final = Crowd(9, 3, 3)
NEIGHBOURS_S: Final = 15.0
QUICK_NEIGHBOURS_S: Final = 3.0
DEATH_S: Final = 36.0  # a third with, a third without the host, a third with it again
QUICK_DEATH_S: Final = 9.0
#: s that resolvers keep what they have been told, although the TTL is 0, and how long that is measured
MIN_TTL, MIN_TTL_S = 30, 75.0
QUICK_MIN_TTL, QUICK_MIN_TTL_S = 4, 10.0
RESOLVERS: Final = 2
WRITTEN: Final = 2  # hosts with a disk writer


@dataclass(frozen=True, slots=True)
class _Wanted:
    settings: Settings
    loading: Loading
    carried: Carried
    selections: tuple[str, ...]

    def seconds(self, usual: float, quick: float) -> float:
        return self.loading.seconds(usual, quick)

    def open(self, seconds: float) -> Open:
        return Open((USUAL * self.carried["round_robin"],), seconds, "poisson")

    def step(self, name: str, farm: str, seconds: float, do: Callable[..., Iterable[Outcome]]) -> Iterator[Step]:
        """One for each selection and repetition."""
        seconds += self.loading.warm_up_s + AROUND_S
        relies_on = "" if farm == FARM else FARM  # for what it carries, which all loads are shares of
        for repetition in range(1, self.settings.repetitions + 1):
            for selection in self.selections:
                what = partial(do, self, selection=selection, repetition=repetition)
                yield Step(f"{selection}, {name}", farm, seconds, what, relies_on=relies_on)


def plan(settings: Settings, farm: Farm | None) -> Study:
    """Raises ConfigError."""
    selections = chosen(settings.selections, SELECTIONS, QUICK_SELECTIONS if settings.quick else SELECTIONS)
    plain = farm or Farm(UNEQUAL)
    # A client host asks one resolver: as many of these as of those, so that all are asked
    honest = replace(plain, clients=max(RESOLVERS, plain.clients), resolvers=RESOLVERS, resolver_min_ttl=0)
    keeping = replace(honest, resolver_min_ttl=QUICK_MIN_TTL if settings.quick else MIN_TTL)
    # Some are left out if it has to be quick, such as resolvers that honour the TTL, which are nearly nobody
    farms = {FARM: plain, **({} if settings.quick else {HONEST: honest}), KEEPING: keeping}
    wanted = _Wanted(settings, Loading(settings, STATIC, "1k"), Carried(), selections)
    return Study(farms, tuple(_steps(wanted)), partial(sections, farm=plain, min_ttl=keeping.resolver_min_ttl))


def _steps(wanted: _Wanted) -> Iterator[Step]:
    mix = wanted.loading.mix(dns_name("best"))
    yield learning(FARM, wanted.loading.workload, mix, wanted.settings)
    calibration_s = wanted.seconds(8.0, 3.0) + wanted.loading.warm_up_s + AROUND_S
    for selection in ("round_robin", "best"):
        yield Step(f"what {selection} carries", FARM, calibration_s, partial(_carried, wanted, selection), needed=True)
    neighbours_s = wanted.seconds(NEIGHBOURS_S, QUICK_NEIGHBOURS_S)
    yield from wanted.step("burners", FARM, neighbours_s, _burners)
    if not wanted.settings.quick:
        yield from wanted.step("nothing else", FARM, neighbours_s, _quiet)
        yield from wanted.step("disk writers", FARM, neighbours_s, _writers)
    death_s = wanted.seconds(DEATH_S, QUICK_DEATH_S)
    yield from wanted.step("a web server dies", FARM, death_s, partial(_dies, with_agent=False))
    yield from wanted.step("a host dies", FARM, death_s, partial(_dies, with_agent=True))
    yield from wanted.step("a flash crowd", FARM, float(_crowd_of(wanted).seconds), _crowd)
    if not wanted.settings.quick:
        yield learning(HONEST, wanted.loading.workload, mix, wanted.settings)
        yield from wanted.step("resolvers", HONEST, neighbours_s, _resolvers)
    yield learning(KEEPING, wanted.loading.workload, mix, wanted.settings)
    keeping_s = wanted.seconds(MIN_TTL_S, QUICK_MIN_TTL_S)
    yield from wanted.step("resolvers that keep", KEEPING, keeping_s, _keeping)


def _crowd_of(wanted: _Wanted) -> Crowd:
    return QUICK_CROWD if wanted.settings.quick else CROWD


def _carried(wanted: _Wanted, selection: str, lab: Lab) -> Iterable[Outcome]:
    lab.settle()
    yield wanted.loading.calibrate(lab, selection, wanted.carried, farm=FARM)


def _quiet(wanted: _Wanted, lab: Lab, selection: str, repetition: int) -> Iterable[Outcome]:
    lab.settle()
    load = wanted.open(wanted.seconds(NEIGHBOURS_S, QUICK_NEIGHBOURS_S))
    yield wanted.loading(lab, selection, load, farm=FARM, more={"part": "quiet"}, repetition=repetition)


def _burners(wanted: _Wanted, lab: Lab, selection: str, repetition: int) -> Iterable[Outcome]:
    host = strongest(lab.farm)
    seconds = wanted.seconds(NEIGHBOURS_S, QUICK_NEIGHBOURS_S)
    lab.settle()
    with burners(lab, host, seconds + wanted.loading.warm_up_s):
        more = {"part": "burners", "host": host}
        yield wanted.loading(lab, selection, wanted.open(seconds), farm=FARM, more=more, repetition=repetition)


def _writers(wanted: _Wanted, lab: Lab, selection: str, repetition: int) -> Iterable[Outcome]:
    hosts = tuple(host.name for host in sorted(lab.farm.hosts, key=lambda host: -host.cpu)[:WRITTEN])
    seconds = wanted.seconds(NEIGHBOURS_S, QUICK_NEIGHBOURS_S)
    lab.settle()
    with writers(lab, hosts, seconds + wanted.loading.warm_up_s):
        more = {"part": "writers", "host": " ".join(hosts), "filesystem": filesystem(lab.folder)}
        yield wanted.loading(lab, selection, wanted.open(seconds), farm=FARM, more=more, repetition=repetition)


def _dies(wanted: _Wanted, lab: Lab, selection: str, repetition: int, with_agent: bool) -> Iterable[Outcome]:
    """Gone after a third of the time, back after two."""
    host, seconds = strongest(lab.farm), wanted.seconds(DEATH_S, QUICK_DEATH_S)
    part = "host dies" if with_agent else "web dies"
    lab.settle()
    with _mortal(lab, host, with_agent) as (die, come_back):
        events = [
            Event(wanted.loading.warm_up_s + seconds / 3, "died", die),
            Event(wanted.loading.warm_up_s + 2 * seconds / 3, "back", come_back),
        ]
        with Happenings(events, lambda: answers(lab.status())) as happenings:
            more: dict[str, str | float] = {"part": part, "host": host}
            load = wanted.open(seconds)
            outcome = wanted.loading(lab, selection, load, farm=FARM, more=more, repetition=repetition)
        yield replace(outcome, case=replace(outcome.case, more={**more, **_what_was(happenings, host, outcome)}))


@contextmanager
def _mortal(lab: Lab, host: str, with_agent: bool) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """What kills it and what brings it back; in the end it is there, whatever has happened."""
    with ExitStack() as stack:

        def die() -> None:
            lab.stop_web(host, kill=True)
            stack.callback(lab.start_web, host)
            if with_agent:
                lab.stop_agent(host, kill=True)
                stack.callback(lab.start_agent, host)

        yield die, stack.close


def _what_was(happenings: Happenings, host: str, outcome: Outcome) -> dict[str, float]:
    """When it died and was back, in seconds of the run; and how long it was handed out after, and wasn't after."""
    found: dict[str, float] = {}
    begun = outcome.row.begun or 0.0
    for event, name, since in (("died", "died_s", last_given), ("back", "back_s", first_given)):
        moment = happenings.done.get(event)
        if moment is None:
            continue
        found[name] = moment - begun
        until = happenings.done.get("back") if event == "died" else None
        seen = [look for look in happenings.seen if until is None or look[0] <= until]
        passed = since(seen, host, moment)
        if passed is not None:
            found["handed_out_for_s" if event == "died" else "handed_out_after_s"] = passed
    return found


def _crowd(wanted: _Wanted, lab: Lab, selection: str, repetition: int) -> Iterable[Outcome]:
    crowd = _crowd_of(wanted)
    more: dict[str, str | float] = {
        "part": "crowd",
        "begin_s": wanted.loading.warm_up_s + crowd.begin_s,
        "length_s": float(crowd.length_s),
    }
    lab.settle()
    load = crowd.load(CROWD_USUAL * wanted.carried["best"])
    yield wanted.loading(lab, selection, load, farm=FARM, more=more, repetition=repetition)


def _resolvers(wanted: _Wanted, lab: Lab, selection: str, repetition: int) -> Iterable[Outcome]:
    load = wanted.open(wanted.seconds(NEIGHBOURS_S, QUICK_NEIGHBOURS_S))
    lab.settle()
    with lab.resolve_by("resolvers"):
        more = {"part": "resolvers"}
        yield wanted.loading(lab, selection, load, farm=HONEST, more=more, repetition=repetition)


def _keeping(wanted: _Wanted, lab: Lab, selection: str, repetition: int) -> Iterable[Outcome]:
    load = wanted.open(wanted.seconds(MIN_TTL_S, QUICK_MIN_TTL_S))
    lab.settle()
    with lab.resolve_by("resolvers"):
        more = {"part": "keeping"}
        yield wanted.loading(lab, selection, load, farm=KEEPING, more=more, repetition=repetition)


PRESET: Final = Preset(
    "other-loads",
    "Other loads: neighbours, deaths, crowds, resolvers",
    "CPU burners and disk writers, a server that dies, a flash crowd, caching resolvers; best beside round robin",
    plan,
)
