"""Points that several studies measure: WebStone's files, clients, whom they ask; and finding them again. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, NamedTuple

from lbdns.errors import ConfigError
from lbdns.toml_table import nearest
from lbdns_tools.lab.addresses import machines
from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import NAMES, ZONE, Farm, WebHost
from lbdns_tools.load.mix import file_set
from lbdns_tools.load.plan import Closed, Resolve, ResolveMode
from lbdns_tools.load.study import Planned, Settings, closed

#: The hosts of 1999 by their processors, 1.1 : 0.7 : 4. Tenths of a core, so that one machine carries them and what
#: loads them, and the slowest still does some twenty CGI requests/s
UNEQUAL: Final = (WebHost("bilbo", 0.11), WebHost("frodo", 0.07), WebHost("gandalf", 0.40))
#: s; a hundred clients at one slow host wait for 5 s and more: 1999 nobody gave up either
TIMEOUT_S: Final = 60.0
#: s a measurement takes besides: processes start, what is under way at its end is waited for
OVERHEAD_S: Final = 1.5
#: s more where requests take long: they are waited for, not cut off
TAIL_S: Final = {"html": 0.5, "cgi": 1.5, "mixed": 1.0}

_OWNERS: Final = {policy: owner for owner, policy in NAMES.items()}


@dataclass(frozen=True, slots=True)
class Length:
    """Seconds of a measurement: before it counts, and that count."""

    warm_up_s: float
    seconds: float

    def total(self, workload: str) -> float:
        return self.warm_up_s + self.seconds + OVERHEAD_S + TAIL_S.get(workload, 0.0)


def dns_name(policy: str) -> str:
    """What clients ask for to have that policy choose: ``best.hobbit``."""
    return f"{_OWNERS[policy]}.{ZONE}"


def web_point(workload: str, target: str, clients: int, resolve: ResolveMode, length: Length, seed: int) -> Planned:
    """So many clients with WebStone's html, cgi or mixed files, at a name or an address."""
    settings = Settings(Resolve(resolve), timeout_s=TIMEOUT_S, warm_up_s=length.warm_up_s, seed=seed)
    return closed(settings, workload, file_set(workload, f"http://{target}"), Closed(clients, length.seconds))


def chosen(said: Sequence[str], known: Sequence[str], usual: Sequence[str]) -> tuple[str, ...]:
    """The selections of --selections, or the usual ones. Raises ConfigError."""
    wrong = [f"--selections: {name!r} is not known{nearest(name, known)}" for name in said if name not in known]
    if wrong:
        raise ConfigError(*wrong)
    return tuple(said or usual)


def addresses_of(farm: Farm) -> dict[str, str]:
    """Name of a web host -> its address."""
    return {machine.name: machine.address for machine in machines(farm) if machine.kind == "web"}


class Key(NamedTuple):
    """What a point is known by."""

    farm: str
    selection: str
    workload: str
    resolve: str
    clients: int


class Found:
    """Outcomes by their keys; a figure is the mean over the repetitions that have one."""

    def __init__(self, outcomes: Iterable[Outcome]) -> None:
        self._by_key: dict[Key, list[Outcome]] = defaultdict(list)
        for outcome in outcomes:
            case, clients = outcome.case, outcome.row.point.clients
            if clients is not None:
                key = Key(case.farm, case.selection, case.workload, case.resolve, clients)
                self._by_key[key].append(outcome)

    @property
    def keys(self) -> list[Key]:
        return list(self._by_key)

    def at(self, key: Key) -> list[Outcome]:
        return self._by_key.get(key, [])

    def figure(self, key: Key, name: str) -> float | None:
        """None is no result."""
        return mean(outcome.row.figures.number(name) for outcome in self.at(key))

    def cpu_percent(self, key: Key, group: str) -> float | None:
        """Of one core."""
        return mean(outcome.cpu_percent(group) for outcome in self.at(key))

    def share(self, key: Key, host: str) -> float | None:
        """Of the requests, that this host got."""
        return mean(o.row.figures.shares.get(host, 0.0) for o in self.at(key) if o.row.figures.shares)

    def ratio(self, key: Key, other: Key, name: str) -> float | None:
        """None where one has no result, or there is nothing to divide by."""
        return quotient(self.figure(key, name), self.figure(other, name))

    def ratios(self, key: Key, other: Key, name: str) -> tuple[float, ...]:
        """Of each repetition, to the same repetition of the other; of those where both have a result."""
        mine, theirs = self._repeated(key, name), self._repeated(other, name)
        found = (quotient(mine[number], theirs[number]) for number in mine if number in theirs)
        return tuple(ratio for ratio in found if ratio is not None)

    def _repeated(self, key: Key, name: str) -> dict[int, float | None]:
        return {outcome.row.repetition: outcome.row.figures.number(name) for outcome in self.at(key)}


def mean(values: Iterable[float | None]) -> float | None:
    """Of those that are a result; None if there are none."""
    found = [value for value in values if value is not None]
    return fmean(found) if found else None


def quotient(value: float | None, other: float | None) -> float | None:
    return value / other if value is not None and other else None
