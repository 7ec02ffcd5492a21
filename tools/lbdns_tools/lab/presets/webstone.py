"""Preset ``webstone``: the study of 1999 again. Who chooses x workload x clients x how often they resolve.

Selections that are compared with each other are measured one right after the other, so that whatever else a shared
machine does hits all of them alike. Every workload begins with lbdns and agents that know nothing and a load that
doesn't count, in which the choosing learns what each host does of this workload.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from lbdns.errors import ConfigError
from lbdns.toml_table import nearest
from lbdns_tools.lab import measuring
from lbdns_tools.lab.case import Case, Outcome
from lbdns_tools.lab.farm import Farm, WebHost
from lbdns_tools.lab.presets.learning import learning
from lbdns_tools.lab.presets.points import UNEQUAL, Length, addresses_of, chosen, dns_name, web_point
from lbdns_tools.lab.presets.preset import Preset, Settings, Step, Study
from lbdns_tools.lab.presets.webstone_sections import sections
from lbdns_tools.load.mix import FILE_SETS, file_set
from lbdns_tools.load.plan import ResolveMode
from lbdns_tools.load.study import Planned

if TYPE_CHECKING:
    from lbdns_tools.lab.lab import Lab

POLICIES: Final = ("round_robin", "best", "best_score")
SELECTIONS: Final = ("single", "alone", *POLICIES)
QUICK_SELECTIONS: Final = ("single", "round_robin", "best")
CLIENTS: Final = tuple(range(20, 101, 10))
QUICK_CLIENTS: Final = (20, 60)
#: As many cores as the unequal hosts have in all
EQUAL: Final = tuple(WebHost(host.name, 0.19) for host in UNEQUAL)
#: How long by how often clients resolve. At WebStone's intervals one goes on asking the same server for 2.5 to 5 s, so
#: the warm-up is until all have chosen anew once, and a measurement has two or three choices of each
LENGTHS: Final[dict[ResolveMode, Length]] = {"connection": Length(2.0, 6.0), "webstone": Length(5.0, 7.5)}
ALONE: Final = Length(2.0, 4.0)
QUICK: Final = Length(2.0, 3.0)
WAYS: Final[tuple[ResolveMode, ...]] = ("connection", "webstone")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is to be measured on one farm. ``single`` is the name of the host that was 1999's one server."""

    farm: str
    hosts: tuple[WebHost, ...]
    selections: tuple[str, ...]
    clients: tuple[int, ...]
    ways: tuple[ResolveMode, ...]
    single: str
    settings: Settings
    addresses: Mapping[str, str]

    def length(self, way: ResolveMode | None) -> Length:
        said = self.settings
        usual = QUICK if said.quick else LENGTHS[way] if way else ALONE
        return Length(
            usual.warm_up_s if said.warm_up_s is None else said.warm_up_s,
            usual.seconds if said.seconds is None else said.seconds,
        )


def plan(settings: Settings, farm: Farm | None) -> Study:
    """On a farm of one's own the comparison with an equal one is left out. Raises ConfigError."""
    main = farm or Farm(UNEQUAL)
    said, single = _single(settings.selections, main.hosts)
    selections = chosen(said, SELECTIONS, QUICK_SELECTIONS if settings.quick else SELECTIONS)
    clients = settings.clients or (QUICK_CLIENTS if settings.quick else CLIENTS)
    ways = WAYS[:1] if settings.quick else WAYS
    name = "own" if farm else "unequal"
    farms = {name: main}
    steps = list(_steps(_Wanted(name, main.hosts, selections, clients, ways, single, settings, addresses_of(main))))
    if not settings.quick and farm is None:
        equal = Farm(EQUAL)
        compared = tuple(each for each in selections if each in ("round_robin", "best"))
        if compared:
            farms["equal"] = equal
            steps += _steps(_Wanted("equal", EQUAL, compared, clients, ways, "", settings, addresses_of(equal)))
    return Study(farms, tuple(steps), partial(sections, farms=farms))


def _single(said: Sequence[str], hosts: tuple[WebHost, ...]) -> tuple[tuple[str, ...], str]:
    """``single:NAME`` is ``single``, with that host. Raises ConfigError.

    Else it is the slowest host. 1999's tables don't name it, but it did 10 % of what round robin got out of all three
    (html 21 of 204, cgi 8.7 of 89, mixed 14 of 138 requests/s, at 100 clients), and of 1.1 + 0.7 + 4 the slowest is
    12 %, the next 19 % and the fastest 69 %.
    """
    names = [host.name for host in hosts]
    slowest = min(hosts, key=lambda host: host.cpu).name
    found = []
    for selection in said:
        kind, colon, name = selection.partition(":")
        if kind == "single" and colon:
            if name not in names:
                raise ConfigError(f"--selections: {selection}: there is no host {name!r}{nearest(name, names)}")
            slowest = name
        found.append(kind if kind == "single" else selection)
    return tuple(found), slowest


def _steps(wanted: _Wanted) -> Iterator[Step]:
    for workload in FILE_SETS:
        if any(policy in wanted.selections for policy in POLICIES):
            mix = file_set(workload, f"http://{dns_name('best')}")
            yield learning(wanted.farm, workload, mix, wanted.settings)
        for repetition in range(1, wanted.settings.repetitions + 1):
            for way in wanted.ways:
                for clients in wanted.clients:
                    yield from _chosen_by_dns(wanted, workload, way, clients, repetition)
                    if way == wanted.ways[-1]:  # beside that way their sum is demanded
                        yield from _by_themselves(wanted, workload, clients, repetition)


def _chosen_by_dns(wanted: _Wanted, workload: str, way: ResolveMode, clients: int, repetition: int) -> Iterator[Step]:
    # What is measured later finds what was before still warm: every other repetition goes the other way round
    for policy in POLICIES if repetition % 2 else reversed(POLICIES):
        if policy in wanted.selections:
            case = Case(policy, workload, way, dns_name(policy), wanted.farm)
            yield _step(wanted, case, clients, way, repetition)


def _by_themselves(wanted: _Wanted, workload: str, clients: int, repetition: int) -> Iterator[Step]:
    for host in wanted.hosts:
        selection = "single" if host.name == wanted.single else "alone"
        if selection in wanted.selections:
            case = Case(selection, workload, "", wanted.addresses[host.name], wanted.farm, {"host": host.name})
            yield _step(wanted, case, clients, None, repetition)


def _step(wanted: _Wanted, case: Case, clients: int, way: ResolveMode | None, repetition: int) -> Step:
    length = wanted.length(way)
    words = [wanted.farm, case.workload, case.more.get("host", case.selection), case.resolve, f"{clients} clients"]
    name = ", ".join(str(word) for word in words if word)
    resolve: ResolveMode = way or "once"  # of an address nothing is resolved
    planned = web_point(case.workload, case.target, clients, resolve, length, wanted.settings.seed)
    do = partial(_measure, case=case, planned=planned, repetition=repetition)
    return Step(name, wanted.farm, length.total(case.workload), do)


def _measure(lab: Lab, case: Case, planned: Planned, repetition: int) -> Iterator[Outcome]:
    yield measuring.measure(lab, case, planned, repetition)


PRESET: Final = Preset(
    "webstone",
    "WebStone, as in 1999",
    """One server, round robin, best, and the literal rule of 1999, with HTML, CGI and mixed files, 20 to 100 clients,
    which choose a server for each connection or at WebStone's own intervals, on unequal hosts and on equal ones.
    Selections: single[:HOST] (else the slowest host), alone (each of the others), round_robin, best, best_score.""",
    plan,
)
