"""Preset ``balancers``: DNS against what stands in front of web servers, as in the studies of 2014-16.

The concurrency sweep, the table of ``ab -n 50000 -c 300``, the rate sweep with a page that sleeps, WebStone's files;
each with the fastest host alone, DNS in turns, lbdns' choice, and HAProxy, nginx and Pound before the same hosts. One
selection follows the other at each point, so that whatever else a shared machine does hits all of them alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns_tools.lab import measuring
from lbdns_tools.lab.case import Case, Outcome
from lbdns_tools.lab.farm import NAMES, PROXIES, Farm
from lbdns_tools.lab.front import proxies
from lbdns_tools.lab.presets.balancers_sections import AB_CLIENTS, AB_REQUESTS, Front, sections
from lbdns_tools.lab.presets.learning import learning
from lbdns_tools.lab.presets.loading import STATIC, Carried, Loading, strongest
from lbdns_tools.lab.presets.points import OVERHEAD_S, TIMEOUT_S, UNEQUAL, Length, chosen, dns_name, web_point
from lbdns_tools.lab.presets.preset import Preset, Settings, Step, Study
from lbdns_tools.load.mix import FILE_SETS, file_set
from lbdns_tools.load.plan import Closed, Open

if TYPE_CHECKING:
    from lbdns_tools.lab.lab import Lab

FARM: Final = "unequal"
DIRECT: Final = "direct"
#: Selection -> who is in front, and by which method it chooses
FRONTS: Final[Mapping[str, Front]] = {
    "nginx": Front("nginx", proxies.ROUND_ROBIN), "nginx_least": Front("nginx", proxies.LEAST_CONNECTIONS),
    "haproxy": Front("haproxy", proxies.ROUND_ROBIN), "haproxy_least": Front("haproxy", proxies.LEAST_CONNECTIONS),
    "pound": Front("pound", proxies.ROUND_ROBIN),
}  # fmt: skip
SELECTIONS: Final = (DIRECT, "round_robin", "best", *FRONTS)
#: What the rate sweep is done with: the study had HAProxy and Pound
RATED: Final = ("round_robin", "best", "nginx", "haproxy", "haproxy_least", "pound")
QUICK_RATED: Final = ("best", "haproxy")

#: Of the concurrency sweep
CONCURRENCY: Final = tuple(range(1, 1402, 100))
QUICK_CONCURRENCY: Final = (1, 301)
SWEEP_REQUESTS: Final = 5000
QUICK_SWEEP_REQUESTS: Final = 1000
REPETITIONS: Final = 3
QUICK_AB_REQUESTS: Final = 3000
#: The page of the rate sweep. The study's 100 to 2000/s for 60 s each are ten even parts of what the farm carries of it
SLEEPING: Final = "/cgi-bin/sleep?s=0.2"
SLEEP_CLIENTS: Final = 100  # that keep the processors busy although each waits 0.2 s
RATES: Final = 10
QUICK_RATES: Final = 3
RATE_S: Final = 8.0
QUICK_RATE_S: Final = 3.0
#: More of it has failed: higher rates are left out, as they would only be a longer queue
MOST_FAILED_PERCENT: Final = 50.0
WEB_CLIENTS: Final = 60
WEB: Final = Length(3.0, 8.0)
QUICK_WEB: Final = Length(1.5, 2.5)
#: Requests/s of a farm like this, for the time that a study is said to take
TYPICAL_RATE: Final = 1500.0
ONE_CLIENT_RATE: Final = 500.0  # a single one, which waits for each response
START_S: Final = 0.7  # s until a proxy passes pages on


@dataclass(frozen=True, slots=True)
class _Wanted:
    settings: Settings
    selections: tuple[str, ...]

    @property
    def repetitions(self) -> range:
        """As many as the study had, unless more are wanted."""
        return range(1, 1 + max(self.settings.repetitions, 1 if self.settings.quick else REPETITIONS))

    def length(self, usual: Length, quick: Length) -> Length:
        said, length = self.settings, quick if self.settings.quick else usual
        return Length(
            length.warm_up_s if said.warm_up_s is None else said.warm_up_s,
            length.seconds if said.seconds is None else said.seconds,
        )


def plan(settings: Settings, farm: Farm | None) -> Study:
    """Without a farm of one's own every balancer that is installed takes part. Raises ConfigError."""
    farm = farm or Farm(UNEQUAL, proxies=tuple(name for name in PROXIES if name != "pound" or proxies.is_there(name)))
    there = [each for each in SELECTIONS if each not in FRONTS or FRONTS[each].proxy in farm.proxies]
    wanted = _Wanted(settings, chosen(settings.selections, there, there))
    steps = (*_concurrency(wanted), *_ab(wanted), *_rate(wanted), *_web(wanted))
    left_out = [name for name in PROXIES if name not in farm.proxies]
    return Study({FARM: farm}, steps, partial(sections, farm=farm, fronts=FRONTS, left_out=left_out))


@contextmanager
def reached(lab: Lab, selection: str) -> Iterator[str]:
    """What clients ask for so that it chooses; a proxy is there as long as the context."""
    if front := FRONTS.get(selection):
        with lab.proxy(front.proxy, front.method) as address:
            yield address
    else:
        yield lab.machines[strongest(lab.farm)].address if selection == DIRECT else dns_name(selection)


def _requests(wanted: _Wanted, workload: str) -> Loading:
    """A number of requests, without a warm-up, as the studies did it; and nobody gives up."""
    return Loading(replace(wanted.settings, warm_up_s=0.0), STATIC, workload, TIMEOUT_S)


def _concurrency(wanted: _Wanted) -> Iterator[Step]:
    quick = wanted.settings.quick
    counts = wanted.settings.clients or (QUICK_CONCURRENCY if quick else CONCURRENCY)
    requests = QUICK_SWEEP_REQUESTS if quick else SWEEP_REQUESTS
    loading = _requests(wanted, "1k")
    yield learning(FARM, "the sweep", loading.mix(dns_name("best")), wanted.settings)
    for repetition in wanted.repetitions:
        for count in counts:
            for selection in wanted.selections:
                load, more = Closed(count, requests=max(requests, count)), {"part": "sweep"}
                do = partial(_one, loading, selection, load, more, repetition)
                rate = TYPICAL_RATE if count > 1 else ONE_CLIENT_RATE
                yield Step(f"sweep, {count} at a time, {selection}", FARM, _seconds(selection, requests / rate), do)


def _ab(wanted: _Wanted) -> Iterator[Step]:
    requests = QUICK_AB_REQUESTS if wanted.settings.quick else AB_REQUESTS
    loading = _requests(wanted, "1k")
    for repetition in range(1, wanted.settings.repetitions + 1):
        for selection in wanted.selections:
            load, more = Closed(AB_CLIENTS, requests=requests), {"part": "ab"}
            do = partial(_one, loading, selection, load, more, repetition)
            yield Step(f"ab, {selection}", FARM, _seconds(selection, requests / TYPICAL_RATE), do)


def _one(
    loading: Loading, selection: str, load: Closed | Open, more: Mapping[str, str | float], repetition: int, lab: Lab
) -> Iterator[Outcome]:
    with reached(lab, selection) as target:
        yield loading(lab, selection, load, farm=FARM, target=target, more=more, repetition=repetition)


def _rate(wanted: _Wanted) -> Iterator[Step]:
    quick = wanted.settings.quick
    rated = [each for each in wanted.selections if each in (QUICK_RATED if quick else RATED)]
    if not rated:
        return
    loading, carried = Loading(wanted.settings, SLEEPING, "sleep"), Carried()
    seconds, rates = loading.seconds(RATE_S, QUICK_RATE_S), QUICK_RATES if quick else RATES
    yield learning(FARM, "the page that sleeps", loading.mix(dns_name("best")), wanted.settings)
    length = loading.warm_up_s + seconds + OVERHEAD_S
    yield Step("what the farm carries of it", FARM, length, partial(_carried, loading, carried, seconds), needed=True)
    for repetition in range(1, wanted.settings.repetitions + 1):
        for selection in rated:
            do = partial(_rates, loading, carried, selection, rates, seconds, repetition)
            yield Step(f"{rates} rates, {selection}", FARM, rates * (length + 1.0), do)


def _carried(loading: Loading, carried: Carried, seconds: float, lab: Lab) -> Iterator[Outcome]:
    load, more = Closed(SLEEP_CLIENTS, seconds), {"part": "carried"}
    outcome = loading(lab, "best", load, farm=FARM, target=dns_name("best"), more=more)
    carried.learn("best", outcome)
    yield outcome


def _rates(
    loading: Loading, carried: Carried, selection: str, rates: int, seconds: float, repetition: int, lab: Lab
) -> Iterator[Outcome]:
    """One rate after another, until most of it fails."""
    with reached(lab, selection) as target:
        for number in range(1, rates + 1):
            lab.settle()
            load, more = Open((carried.highest * number / rates,), seconds), {"part": "rate"}
            outcome = loading(lab, selection, load, farm=FARM, target=target, more=more, repetition=repetition)
            yield outcome
            if (outcome.row.figures.error_percent or 0.0) > MOST_FAILED_PERCENT:
                return


def _web(wanted: _Wanted) -> Iterator[Step]:
    length = wanted.length(WEB, QUICK_WEB)
    for workload in FILE_SETS:
        yield learning(FARM, workload, file_set(workload, f"http://{dns_name('best')}"), wanted.settings)
        for repetition in range(1, wanted.settings.repetitions + 1):
            for selection in wanted.selections:
                do = partial(_web_point, wanted, workload, selection, length, repetition)
                seconds = length.total(workload) + (START_S if selection in FRONTS else 0.0)
                yield Step(f"{workload}, {WEB_CLIENTS} clients, {selection}", FARM, seconds, do)


def _web_point(
    wanted: _Wanted, workload: str, selection: str, length: Length, repetition: int, lab: Lab
) -> Iterable[Outcome]:
    resolve = "connection" if selection in NAMES.values() else ""
    with reached(lab, selection) as target:
        case = Case(selection, workload, resolve, target, FARM, {"part": "web"})
        planned = web_point(workload, target, WEB_CLIENTS, "connection", length, wanted.settings.seed)
        yield measuring.measure(lab, case, planned, repetition)


def _seconds(selection: str, seconds: float) -> float:
    return seconds + OVERHEAD_S + (START_S if selection in FRONTS else 0.0)


PRESET: Final = Preset(
    "balancers",
    "DNS and balancers in front of the same hosts",
    """The fastest host alone (direct), DNS in turns (round_robin), best, nginx and haproxy in turns, nginx_least and
    haproxy_least by the fewest connections, and pound where it is installed: the concurrency sweep, the table of ab,
    the rate sweep with the balancer's CPU, and WebStone's files.""",
    plan,
)
