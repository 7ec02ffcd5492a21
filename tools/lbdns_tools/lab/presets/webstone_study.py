"""The study ``webstone``, which repeats the 1999 study with various selections, workloads and lookup intervals.

The compared selections are measured in succession, so other activity on the machine affects all selections equally.
Before every workload, lbdns and the agents are restarted. A learning load then lets lbdns learn each host's capacity
for this workload. The results of the learning load are discarded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError
from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost, machines
from lbdns_tools.lab.loads.farm_load import TIMEOUT_S, UNEQUAL, MeasurementLength, chosen, dns_name, learning
from lbdns_tools.lab.measuring import case_measurement
from lbdns_tools.lab.measuring.case_measurement import MeasuredCase, MeasuredOutcome
from lbdns_tools.lab.report.webstone_report import sections
from lbdns_tools.lab.study_plan import StudyPlan, StudyPreset, StudySettings, StudyStep
from lbdns_tools.load.load_plan import ClosedLoop, LoadRun, ResolveMode, ResolveRule
from lbdns_tools.load.load_study import PlannedRun, closed
from lbdns_tools.load.request_mix import FILE_SETS, PAGE_50K, WEBSTONE, file_set

if TYPE_CHECKING:
    from lbdns_tools.lab.running_lab import Lab

POLICIES: Final = ("round_robin", "best", "best_score")
SELECTIONS: Final = ("single", "alone", *POLICIES)
QUICK_SELECTIONS: Final = ("single", "round_robin", "best")
CLIENTS: Final = tuple(range(20, 101, 10))
QUICK_CLIENTS: Final = (20, 60)
#: The same number of cores in total as the unequal hosts
EQUAL: Final = tuple(WebHost(host.name, 0.19) for host in UNEQUAL)
#: Lengths by how often clients resolve. At WebStone's intervals, a client keeps a server for 2.5 to 5 s, so the warm-up
#: lasts until all clients have resolved again, and a measurement covers two or three choices per client. ``once``
#: stands for a host alone, which clients reach by its address
LENGTHS: Final[dict[ResolveMode, MeasurementLength]] = {
    "connection": MeasurementLength(2.0, 6.0),
    "webstone": MeasurementLength(5.0, 7.5),
    "once": MeasurementLength(2.0, 4.0),
}
QUICK: Final = MeasurementLength(2.0, 3.0)
WAYS: Final[tuple[ResolveMode, ...]] = ("connection", "webstone")
WAYS_1999: Final[tuple[ResolveMode, ...]] = ("1999",)
#: The sets of files. ``mix`` is WebStone's weighted set, and ``page50k`` is the only page in the tables of 1999
FILES: Final = {"mix": WEBSTONE, "page50k": PAGE_50K}


def plan(settings: StudySettings, farm: LabFarm | None) -> StudyPlan:
    """Return the study's steps. With --farm, the study omits the comparison on equal hosts. Raises ConfigError."""
    main, name = farm or LabFarm(UNEQUAL), "own" if farm else "unequal"
    main = _as_in(settings, main)
    requested, single = _single(settings.selections, main.hosts)
    selections = chosen(requested, SELECTIONS, QUICK_SELECTIONS if settings.quick else SELECTIONS)
    farms, steps = {name: main}, [*_steps(settings, name, main, selections, single)]
    compared = tuple(each for each in selections if each in ("round_robin", "best"))
    if compared and farm is None and not settings.quick:
        farms["equal"] = _as_in(settings, LabFarm(EQUAL))
        steps += _steps(settings, "equal", farms["equal"], compared, single)
    return StudyPlan(farms, tuple(steps), partial(sections, farms=farms))


def _as_in(settings: StudySettings, farm: LabFarm) -> LabFarm:
    """Return the farm with the score of 1999 if clients look up names as in 1999, and ``farm`` otherwise."""
    return replace(farm, score="thesis") if settings.intervals == "1999" else farm


def _length(settings: StudySettings, resolve: ResolveMode, clients: int) -> MeasurementLength:
    """Return the durations of a measurement.

    In the mode ``1999``, N clients look up the name again after at most N seconds. The warm-up lasts until all clients
    have done so, and the run lasts 3 N seconds in total.
    """
    usual = MeasurementLength(float(clients), 2.0 * clients) if resolve == "1999" else LENGTHS[resolve]
    return (QUICK if settings.quick else usual).with_settings(settings)


def _single(requested: Sequence[str], hosts: tuple[WebHost, ...]) -> tuple[tuple[str, ...], str]:
    """Replace ``single:NAME`` in the selections with ``single``, and return the new selections and the host NAME.
    Raises ConfigError.

    The default for NAME is the slowest host. The tables from 1999 do not state which host was the single host. With 100
    clients, the single host served about 10 % of round robin's total in each workload (html 21 of 204, cgi 8.7 of 89,
    mixed 14 of 138 requests/s). The slowest host has 12 % of the total CPU capacity, the second slowest host has 19 %,
    and the fastest host has 69 %.
    """
    names = [host.name for host in hosts]
    slowest = min(hosts, key=lambda host: host.cpu).name
    found = []
    for selection in requested:
        kind, colon, name = selection.partition(":")
        if kind == "single" and colon:
            if name not in names:
                raise ConfigError(f"--selections: {selection}: the farm has no host {name!r}{nearest(name, names)}")
            slowest = name
        found.append(kind if kind == "single" else selection)
    return tuple(found), slowest


def _steps(
    settings: StudySettings, name: str, farm: LabFarm, selections: tuple[str, ...], single: str
) -> Iterator[StudyStep]:
    """Yield the study's steps on one farm. ``single`` is the host that represents the single server of 1999."""
    ways = WAYS_1999 if settings.intervals == "1999" else WAYS[:1] if settings.quick else WAYS
    files = FILES[settings.workload or "mix"]
    more = {"files": settings.workload} if files is PAGE_50K else {}
    counts = settings.clients or (QUICK_CLIENTS if settings.quick else CLIENTS)
    for workload in FILE_SETS:
        if any(policy in selections for policy in POLICIES):
            yield learning(name, workload, file_set(workload, f"http://{dns_name('best')}", files), settings)
        for repetition, way, clients in product(range(1, settings.repetitions + 1), ways, counts):
            # The order alternates between repetitions, because the first selection warms up the farm for the next
            for policy in POLICIES if repetition % 2 else reversed(POLICIES):
                if policy in selections:
                    case = MeasuredCase(policy, workload, way, dns_name(policy), name, more)
                    yield _step(settings, case, clients, way, repetition)
            if way == ways[-1]:  # compared with the sum of the hosts alone
                for case in _hosts_alone(name, farm, workload, single):
                    if case.selection in selections:
                        alone = replace(case, more={**case.more, **more})
                        yield _step(settings, alone, clients, "once", repetition)


def _hosts_alone(name: str, farm: LabFarm, workload: str, single: str) -> Iterator[MeasuredCase]:
    for machine in machines(farm):
        if machine.kind == "web":
            selection = "single" if machine.name == single else "alone"
            yield MeasuredCase(selection, workload, "", machine.address, name, {"host": machine.name})


def _step(
    settings: StudySettings, case: MeasuredCase, clients: int, resolve: ResolveMode, repetition: int
) -> StudyStep:
    length = _length(settings, resolve, clients)
    words = [case.farm, case.workload, case.more.get("host", case.selection), case.resolve, f"{clients} clients"]
    name = ", ".join(str(word) for word in words if word)
    # In 1999, a client that had just started looked up the name of the rotation, whichever server it wanted
    first = dns_name("round_robin") if resolve == "1999" and case.selection != "round_robin" else ""
    rule = ResolveRule(resolve, first=first)
    how = LoadRun(rule, timeout_s=TIMEOUT_S, warm_up_s=length.warm_up_s, seed=settings.seed)
    mix = file_set(case.workload, f"http://{case.target}", FILES[settings.workload or "mix"])
    planned = closed(how, case.workload, mix, ClosedLoop(clients, length.seconds))
    do = partial(_measure, case=case, planned=planned, repetition=repetition)
    return StudyStep(name, case.farm, length.total(case.workload), do)


def _measure(lab: Lab, case: MeasuredCase, planned: PlannedRun, repetition: int) -> Iterator[MeasuredOutcome]:
    yield case_measurement.measure(lab, case, planned, repetition)


PRESET: Final = StudyPreset(
    "webstone",
    "WebStone, as in 1999",
    """Compare a single server, 'round_robin', 'best' and 'best_score' on unequal and equal hosts. 'best_score' is the
    rule of 1999, applied to the score 'headroom'. 20 to 100 clients request HTML, CGI and mixed files. Clients resolve
    the name for each connection or at WebStone's intervals. The selections are 'single[:HOST]' (one host, by default
    the slowest), 'alone' (each of the other hosts by itself), 'round_robin', 'best' and 'best_score'. With --workload
    page50k, clients request only a page of 50 kB. With --intervals 1999, each client draws its interval once, as in
    1999, 'best_score' applies to the score 'thesis', and each measurement takes 3 s per client.""",
    plan,
)
