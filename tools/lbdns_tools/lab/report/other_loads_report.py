"""The report of the study ``other-loads``, with noisy neighbours, failures, a flash crowd and caching resolvers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.noisy_neighbours import BLOCK_KB, BLOCKS, BURNERS, COMPILED, SHELLS
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report.outcome_index import by_selection, mean_cpu, mean_of, mean_of_known, means, part
from lbdns_tools.lab.report.report_charts import course
from lbdns_tools.lab.report.report_page import ReportCell, ReportSection, SectionTable
from lbdns_tools.lab.report.round_robin_comparison import beside_round_robin, saturated
from lbdns_tools.lab.report.run_windows import windows

#: s; shorter response times count as normal even if they are many times the mean, since no user notices
NOTICED_S: Final = 0.1
MEMORY_ONLY: Final = ("tmpfs", "ramfs")
WEB_DIES: Final = "Apache is killed. The host and the agent keep running."
HOST_DIES: Final = (
    "Apache and the agent are killed simultaneously. The host's kernel keeps running and refuses connections. "
    "If the whole machine had failed, connection attempts would time out instead."
)
CACHES_HEADING: Final = "A PHP page with and without caches"
CACHES: Final = (
    "The page takes 29 % of its time for compiling, 54 % for its content and 17 % for the rest. The opcode cache saves "
    "the first part, and memcached on the same host also the second. 'alone' is one client of the strongest host. In "
    "the cloud study of 2012, a page took 470 ms without caches, 336 ms with the opcode cache, and 79 ms with "
    "memcached too."
)
CACHE_FIGURES: Final = ("requests_per_s", "mean_ms", "p95_ms", "error_percent")
CHECKS: Final = "The pool has a check, and agents watch their web servers."
FIGURES: Final = ("requests_per_s", "mean_ms", "p95_ms", "p99_ms", "error_percent", "failed")
COLUMNS: Final = ("", "offered /s", "successful /s", "mean ms", "p95 ms", "p99 ms", "errors %", "lost",
                  "CPU of the hosts")  # fmt: skip


def sections(outcomes: Sequence[MeasuredOutcome], farm: LabFarm, min_ttl: int) -> list[ReportSection]:
    kept = f"Resolvers cache answers for {min_ttl} s, although the TTL is 0."
    return [
        _section("Nothing else", "quiet", outcomes, farm, ["The usual load without a disturbance, for comparison."]),
        _section("CPU burners", "burners", outcomes, farm, _burners(part(outcomes, "burners"))),
        _section("Disk writers", "writers", outcomes, farm, _writers(part(outcomes, "writers"))),
        *(_shell_section(count, outcomes, farm) for count in SHELLS),
        _death("A web server dies", "web dies", outcomes, farm, WEB_DIES),
        _checked_death("A web server dies, with checks", "web dies", outcomes, farm, WEB_DIES),
        _death("A host dies", "host dies", outcomes, farm, HOST_DIES),
        _checked_death("A host dies, with checks", "host dies", outcomes, farm, HOST_DIES),
        _crowd(outcomes, farm),
        _section("Resolvers", "resolvers", outcomes, farm, [
            "Clients use caching resolvers (unbound) that respect the TTL of 0."]),
        _caches(part(outcomes, "caches"), farm),
        _section("Resolvers that keep", "keeping", outcomes, farm, [
            kept, "All clients of a resolver therefore use the same host until the cached answer expires."]),
    ]  # fmt: skip


def _section(
    heading: str,
    name: str,
    outcomes: Sequence[MeasuredOutcome],
    farm: LabFarm,
    words: Sequence[str],
    more: Sequence[SectionTable] = (),
    marks: Mapping[str, float] | None = None,
) -> ReportSection:
    of = part(outcomes, name)
    if not of:
        return ReportSection(heading, ["Not measured: no result."])
    pictures = course(f"other-{name.replace(' ', '-')}", heading, of, farm.host_names, marks=marks)
    return ReportSection(
        heading, [*words, *beside_round_robin(of), *saturated(of)], [table(of, farm.host_names), *more], pictures
    )


def table(outcomes: Sequence[MeasuredOutcome], hosts: Sequence[str]) -> SectionTable:
    """Return a table of the mean results of each selection, with the hosts' shares if known."""
    rows: list[list[ReportCell]] = []
    for selection, of in by_selection(outcomes).items():
        shared = [outcome.row.figures.shares for outcome in of if outcome.row.figures.shares]
        rows.append([
            selection, mean_of_known(outcome.row.point.rate_per_s for outcome in of), *means(of, *FIGURES),
            mean_cpu(of, hosts), *(mean_of_known(100 * shares.get(host, 0.0) for shares in shared) for host in hosts),
        ])  # fmt: skip
    columns = (*COLUMNS, *(f"{host} served %" for host in hosts))
    return SectionTable("CPU use as a percentage of one core", columns, rows)


def _caches(outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> ReportSection:
    if not outcomes:
        return ReportSection(CACHES_HEADING, ["Not measured: no result."])
    rows: list[list[ReportCell]] = []
    for page in dict.fromkeys(outcome.case.workload for outcome in outcomes):
        for selection, of in by_selection(o for o in outcomes if o.case.workload == page).items():
            clients = of[0].row.point.clients
            rows.append([page, selection, clients, *means(of, *CACHE_FIGURES), mean_cpu(of, farm.host_names)])
    columns = ("", "", "clients", "successful /s", "mean ms", "p95 ms", "errors %", "CPU of the hosts")
    table = SectionTable("CPU use as a percentage of one core", columns, rows)
    return ReportSection(CACHES_HEADING, [CACHES, *saturated(outcomes)], [table])


def _burners(outcomes: Sequence[MeasuredOutcome]) -> list[str]:
    hosts = dict.fromkeys(str(outcome.case.more["host"]) for outcome in outcomes)
    return [f"{BURNERS} busy loops run on {host}. The loops and the web server share one CPU quota." for host in hosts]


def shell_part(count: int) -> str:
    """Return the name of the part of the study with ``count`` shells, such as ``4 shells``."""
    return f"{count} shell" if count == 1 else f"{count} shells"


def _shell_section(count: int, outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> ReportSection:
    name = shell_part(count)
    heading = f"{name} that {'compiles and searches' if count == 1 else 'compile and search'}"
    return _section(heading, name, outcomes, farm, _shells(part(outcomes, name)))


def _shells(outcomes: Sequence[MeasuredOutcome]) -> list[str]:
    hosts = dict.fromkeys(str(outcome.case.more["host"]) for outcome in outcomes)
    what = f"compiles the package '{COMPILED}' of Python's standard library, and then searches the library for a word"
    return [
        f"Each shell on {host} repeatedly {what}. The shells and the web server share one CPU quota." for host in hosts
    ]


def _writers(outcomes: Sequence[MeasuredOutcome]) -> list[str]:
    hosts = dict.fromkeys(str(outcome.case.more["host"]) for outcome in outcomes)
    size = BLOCK_KB * BLOCKS / 1024
    words = [f"A program on each host ({host.replace(' ', ', ')}) repeatedly writes {size:g} MB and waits for the disk."
             for host in hosts]  # fmt: skip
    for kind in dict.fromkeys(str(outcome.case.more["filesystem"]) for outcome in outcomes):
        if kind in MEMORY_ONLY:
            words.append(
                f"The lab's directory is on {kind}, an in-memory file system, so the writers did not use a disk."
            )
        else:
            words.append(f"The file system on the disk was {kind or 'unknown'}. All hosts share the machine's disk.")
    return words


def _death(heading: str, name: str, outcomes: Sequence[MeasuredOutcome], farm: LabFarm, what: str) -> ReportSection:
    of = part(outcomes, name)
    rows: list[list[ReportCell]] = []
    marks: dict[str, float] = {}
    words = [what]
    for outcome in of:
        more, selection = outcome.case.more, outcome.case.selection
        failed = [window.failed for window in windows(outcome.row)]
        rows.append([
            selection, more["host"], more.get("died_s"), more.get("handed_out_for_s"), more.get("back_s"),
            more.get("handed_out_after_s"), outcome.row.figures.failed, max(failed, default=None),
        ])  # fmt: skip
        marks = marks or {event: float(more[f"{event}_s"]) for event in ("died", "back") if f"{event}_s" in more}
        words.append(death_sentence(outcome))
    columns = ("", "host", "died at s", "still named for s", "back at s", "named again after s", "lost",
               "lost in the worst second")  # fmt: skip
    caption = "Times in s since the start of the run; delays may be overestimated by up to 0.5 s"
    return _section(heading, name, outcomes, farm, words, [SectionTable(caption, columns, rows)], marks)


def _checked_death(
    heading: str, name: str, outcomes: Sequence[MeasuredOutcome], farm: LabFarm, what: str
) -> ReportSection:
    section = _death(heading, f"{name} checked", outcomes, farm, f"{what} {CHECKS}")
    return replace(section, words=[*section.words, *_beside_unchecked(outcomes, name)])


def _beside_unchecked(outcomes: Sequence[MeasuredOutcome], name: str) -> list[str]:
    """Return a sentence that compares the lost requests in two cases: ``best`` with checks, and ``round_robin`` without
    checks."""
    mine = [o for o in part(outcomes, f"{name} checked") if o.case.selection == "best"]
    theirs = [o for o in part(outcomes, name) if o.case.selection == "round_robin"]
    value, other = mean_of(mine, "error_percent"), mean_of(theirs, "error_percent")
    if value is None or other is None:
        return []
    verdict = "Met" if value <= other else "Not met"
    figures = f"'best' with checks lost {value:.2g} % of the requests; 'round_robin' without checks lost {other:.2g} %"
    return [f"{verdict}: {figures}."]


def death_sentence(outcome: MeasuredOutcome) -> str:
    """Return a sentence that states when answers stopped naming the dead host, and when they named it again."""
    more, selection = outcome.case.more, outcome.case.selection
    gone, back = more.get("handed_out_for_s"), more.get("handed_out_after_s")
    if "died_s" not in more:
        return f"{selection}: no result, because the measurement ended before the host died."
    if gone is None:
        until = "it is unknown when answers stopped naming the host"
    elif gone:
        until = f"answers stopped naming the host {float(gone):.2g} s after its death"
    else:
        until = "no answer named the host after its death"
    if "back_s" not in more:
        return f"{selection}: {until}; the host did not return before the end of the measurement."
    again = "no answer named the host again before the end of the measurement"
    if back is not None:
        again = f"the host appeared in answers again {float(back):.2g} s after its return"
    return f"{selection}: {until}; {again}. {outcome.row.figures.failed} requests were lost."


def _crowd(outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> ReportSection:
    of = part(outcomes, "crowd")
    marks: dict[str, float] = {}
    if of:
        begin, length = float(of[0].case.more["begin_s"]), float(of[0].case.more["length_s"])
        marks = {"crowd": begin, "over": begin + length}
    words = [
        "For a few seconds, the rate rises tenfold, to slightly below the rate that the farm sustains with 'best'.",
        *_recovered(of),
    ]
    return _section("A flash crowd", "crowd", outcomes, farm, words, (), marks)


def _recovered(outcomes: Sequence[MeasuredOutcome]) -> list[str]:
    """Return one sentence per run that states when response times returned to normal."""
    words = []
    for outcome in outcomes:
        begin = float(outcome.case.more["begin_s"])
        end = begin + float(outcome.case.more["length_s"])
        parts = windows(outcome.row)
        usual = mean_of_known(part.response_s for part in parts if part.middle_s < begin)
        if usual is None:
            continue
        late = [p.middle_s + 0.5 - end for p in parts
                if p.middle_s > end and (p.response_s or 0.0) > max(2 * usual, NOTICED_S)]  # fmt: skip
        when = f"{max(late):.0f} s after the flash crowd" if late else "as soon as the flash crowd ended"
        words.append(f"{outcome.case.selection}: response times returned to normal {when}.")
    return words
