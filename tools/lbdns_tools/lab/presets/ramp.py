"""Preset ``ramp``: a rate that rises in a straight line beyond what the farm carries, and what one server passes.

As in the cloud study. The ramp goes from a little to half as much again as best carries, which is measured first. The
service time is that of a page that takes 70 ms of CPU on a host with two processors, as in the study, where one server
passes 2 / 0.070 s = 28.571 requests/s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import Farm, WebHost
from lbdns_tools.lab.presets.learning import learning
from lbdns_tools.lab.presets.loading import ALONE, AROUND_S, CGI, Carried, Loading
from lbdns_tools.lab.presets.points import UNEQUAL, chosen, dns_name
from lbdns_tools.lab.presets.preset import Preset, Settings, Step, Study
from lbdns_tools.lab.presets.ramp_sections import sections
from lbdns_tools.load.plan import Closed, Open

if TYPE_CHECKING:
    from lbdns_tools.lab.lab import Lab

FARM: Final = "farm"
SERVER_FARM: Final = "server"
SELECTIONS: Final = ("round_robin", "best")
POSSIBLE: Final = (*SELECTIONS, "best_score", "weighted", "least_charged", "two_choices")
FIRST, LAST = 0.05, 1.5  # shares of what best carries, at the ramp's beginning and end
RAMP_S: Final = 120.0
QUICK_RAMP_S: Final = 25.0

#: Two processors, but for a trifle: a quota of all that a machine has is none, and the agent would see everybody's load
SERVER: Final = Farm((WebHost("server", 1.99),))
PAGE: Final = "/cgi-bin/work?ms=70"
#: Shares of 2 / S, where S is the time one client waits; the last is more than can pass
LOADS: Final = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.15)
QUICK_LOADS: Final = (0.3, 0.6, 1.15)
LOAD_S: Final = 25.0
QUICK_LOAD_S: Final = 8.0
ONE_S: Final = 15.0
QUICK_ONE_S: Final = 5.0


def plan(settings: Settings, farm: Farm | None) -> Study:
    """The service-time run has a farm of its own in any case: its formula is one of whole processors."""
    selections = chosen(settings.selections, POSSIBLE, SELECTIONS)
    farm = farm or Farm(UNEQUAL)
    steps = (*_ramp_steps(settings, selections), *_service_steps(settings))
    return Study({FARM: farm, SERVER_FARM: SERVER}, steps, partial(sections, farm=farm, server=SERVER))


def _ramp_steps(settings: Settings, selections: tuple[str, ...]) -> Iterator[Step]:
    loading, carried = Loading(settings, CGI, "cgi"), Carried()

    def calibrate(lab: Lab) -> Iterable[Outcome]:
        lab.settle()
        yield loading.calibrate(lab, "best", carried, farm=FARM)

    def ramp(lab: Lab, selection: str, repetition: int) -> Iterable[Outcome]:
        rates = (FIRST * carried["best"], LAST * carried["best"])
        load = Open(rates, seconds, "poisson", ramp=True)
        lab.settle()
        yield loading(lab, selection, load, farm=FARM, more={"part": "ramp"}, repetition=repetition)

    seconds, around = loading.seconds(RAMP_S, QUICK_RAMP_S), loading.warm_up_s + AROUND_S
    yield learning(FARM, loading.workload, loading.mix(dns_name("best")), settings)
    yield Step("what best carries", FARM, loading.seconds(8.0, 3.0) + around, calibrate, needed=True)
    for repetition in range(1, settings.repetitions + 1):
        for selection in selections:
            # What is under way at the end is waited for
            length = seconds + around + loading.timeout_s
            do = partial(ramp, selection=selection, repetition=repetition)
            yield Step(f"{selection}, ramp", FARM, length, do)


def _service_steps(settings: Settings) -> Iterator[Step]:
    loading, measured = Loading(replace(settings, seconds=None), PAGE, "work 70 ms"), Carried()

    def one_client(lab: Lab) -> Iterable[Outcome]:
        outcome = loading(lab, ALONE, Closed(1, one_s), farm=SERVER_FARM, more={"part": "service"})
        measured.learn(ALONE, outcome)
        yield outcome

    def at_load(lab: Lab, load: float, repetition: int) -> Iterable[Outcome]:
        cores = round(lab.farm.hosts[0].cpu)
        # One client that asks again at once gets 1 / S requests/s
        rate = load * cores * measured[ALONE]
        lab.settle()
        more: dict[str, str | float] = {"part": "load", "load": load}
        yield loading(lab, ALONE, Open((rate,), load_s, "poisson"), farm=SERVER_FARM, more=more, repetition=repetition)

    one_s, load_s = loading.seconds(ONE_S, QUICK_ONE_S), loading.seconds(LOAD_S, QUICK_LOAD_S)
    around = loading.warm_up_s + AROUND_S
    yield Step("one client, 70 ms of CPU", SERVER_FARM, one_s + around, one_client, needed=True)
    for repetition in range(1, settings.repetitions + 1):
        for load in QUICK_LOADS if settings.quick else LOADS:
            do = partial(at_load, load=load, repetition=repetition)
            yield Step(f"{100 * load:g} % of what it passes", SERVER_FARM, load_s + around, do)


PRESET: Final = Preset(
    "ramp",
    "Ramp: a rising rate, and what one server passes",
    "a rate that rises beyond what the farm carries, best beside round robin; one server's service time",
    plan,
)
