"""How a preset loads a farm: whom the clients ask for, what, and one measurement of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from lbdns.errors import LbdnsError
from lbdns_tools.lab import measuring
from lbdns_tools.lab.case import Case, Outcome
from lbdns_tools.lab.farm import NAMES, Farm
from lbdns_tools.lab.presets import points
from lbdns_tools.lab.presets.points import dns_name
from lbdns_tools.lab.presets.preset import Settings
from lbdns_tools.load import study
from lbdns_tools.load.mix import Mix, one_url
from lbdns_tools.load.plan import Closed, Open, Phase, Resolve
from lbdns_tools.load.study import Planned

if TYPE_CHECKING:
    from lbdns_tools.lab.lab import Lab

#: The 1 kB page of the operating-system study, and WebStone's 5 kB made by a program
STATIC: Final = "/1k.html"
CGI: Final = "/cgi-bin/file?size=5000"
#: Clients that keep a farm busy without a queue that only makes them wait
CALIBRATION_CLIENTS: Final = 40
#: s; a measurement begins slowly: Apache makes processes, and reports have to show the load. Whole seconds, as pictures
#: over time count by them
WARM_UP_S: Final = 3.0
QUICK_WARM_UP_S: Final = 2.0
#: s; who waits longer has gone away
PATIENCE_S: Final = 10.0
#: The selection that is no selection: one host, the strongest
ALONE: Final = "alone"
#: s for what is no load: programs started, a farm that comes to rest. Only for the time a study is said to take
AROUND_S: Final = 3.0


def strongest(farm: Farm) -> str:
    """The host with the most CPU, the first of several."""
    return max(farm.hosts, key=lambda host: host.cpu).name


def target_of(lab: Lab, selection: str) -> str:
    """What clients ask for: the pool's name with this policy, or the address of the strongest host alone."""
    return lab.machines[strongest(lab.farm)].address if selection == ALONE else dns_name(selection)


@dataclass(frozen=True, slots=True)
class Loading:
    """What the measurements of a study have in common."""

    settings: Settings
    page: str
    workload: str
    timeout_s: float = PATIENCE_S

    @property
    def warm_up_s(self) -> float:
        if self.settings.warm_up_s is not None:
            return self.settings.warm_up_s
        return QUICK_WARM_UP_S if self.settings.quick else WARM_UP_S

    def seconds(self, usual: float, quick: float) -> float:
        return self.settings.seconds or (quick if self.settings.quick else usual)

    def mix(self, target: str) -> Mix:
        return replace(one_url(f"http://{target}{self.page}"), name=self.workload)

    def planned(self, target: str, load: Closed | Open | Callable[[Mix, float], tuple[Phase, ...]]) -> Planned:
        """A plan of this load; a callable makes phases of a mix and the second at which they begin."""
        resolve, mix = Resolve("connection"), self.mix(target)
        usual = study.Settings(resolve, False, self.timeout_s, self.warm_up_s, seed=self.settings.seed)
        if isinstance(load, Closed):
            return study.closed(usual, self.workload, mix, load)
        if isinstance(load, Open):
            return study.opened(usual, self.workload, mix, load)
        return Planned(usual.point(self.workload), usual.run(self.workload, *load(mix, self.warm_up_s)))

    def __call__(
        self,
        lab: Lab,
        selection: str,
        load: Closed | Open | Callable[[Mix, float], tuple[Phase, ...]],
        *,
        farm: str = "",
        target: str = "",
        more: Mapping[str, str | float] | None = None,
        repetition: int = 1,
    ) -> Outcome:
        """Measure it. ``target`` is the address of a proxy; of other selections it is known."""
        target = target or target_of(lab, selection)
        resolve = "connection" if selection in NAMES.values() else ""
        case = Case(selection, self.workload, resolve, target, farm, more or {})
        return measuring.measure(lab, case, self.planned(target, load), repetition)

    def calibrate(self, lab: Lab, selection: str, carried: Carried, *, farm: str = "", target: str = "") -> Outcome:
        """Find out what it carries: as much as clients get who ask again at once."""
        load = Closed(CALIBRATION_CLIENTS, self.seconds(8.0, 3.0))
        outcome = self(lab, selection, load, farm=farm, target=target, more={"part": "carried"})
        carried.learn(selection, outcome)
        return outcome


@dataclass(slots=True)
class Carried:
    """What each selection carries, requests/s, as it was measured first: later loads are shares of it."""

    rates: dict[str, float] = field(default_factory=dict)

    def learn(self, selection: str, outcome: Outcome) -> None:
        rate = outcome.row.figures.requests_per_s
        if rate:
            self.rates[selection] = rate

    @property
    def highest(self) -> float:
        """Raises LbdnsError if nothing is known."""
        if not self.rates:
            raise LbdnsError("what the farm carries was not measured, and this load is a share of it")
        return max(self.rates.values())

    def __getitem__(self, selection: str) -> float:
        """Raises LbdnsError if it isn't known."""
        if selection not in self.rates:
            raise LbdnsError(f"what {selection} carries was not measured, and this load is a share of it")
        return self.rates[selection]


def part(outcomes: Sequence[Outcome], name: str) -> list[Outcome]:
    """Those of one part of a study."""
    return [outcome for outcome in outcomes if outcome.case.more.get("part") == name]


def selections(outcomes: Sequence[Outcome]) -> list[str]:
    """In the order in which they were measured first."""
    return list(dict.fromkeys(outcome.case.selection for outcome in outcomes))


def mean(outcomes: Sequence[Outcome], name: str, times: float = 1.0) -> float | None:
    """Of a figure over repetitions; None if none has it."""
    found = points.mean(outcome.row.figures.number(name) for outcome in outcomes)
    return None if found is None else times * found


def mean_cpu(outcomes: Sequence[Outcome], groups: Sequence[str]) -> float | None:
    """CPU of some groups together in % of one core, over repetitions; None if one was never read."""
    sums = []
    for outcome in outcomes:
        read = [cpu for group in groups if (cpu := outcome.cpu_percent(group)) is not None]
        sums.append(sum(read) if len(read) == len(groups) else None)
    return points.mean(sums)


def most_memory(outcomes: Sequence[Outcome], group: str) -> float | None:
    """The highest over repetitions, in MB; None if it was never read."""
    read = [memory for outcome in outcomes if (memory := outcome.memory_bytes(group)) is not None]
    return max(read) / 1e6 if read else None
