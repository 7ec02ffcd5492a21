"""The report of preset ``other_loads``. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import Farm
from lbdns_tools.lab.presets import points
from lbdns_tools.lab.presets.charts import course
from lbdns_tools.lab.presets.comparing import beside_round_robin, saturated
from lbdns_tools.lab.presets.loading import mean, mean_cpu, part, selections
from lbdns_tools.lab.presets.neighbours import BLOCK_KB, BLOCKS, BURNERS
from lbdns_tools.lab.presets.over_time import windows
from lbdns_tools.lab.report.section import Cell, Section, Table

#: s; what nobody notices is usual, whatever it is times the mean
NOTICED_S: Final = 0.1
MEMORY_ONLY: Final = ("tmpfs", "ramfs")
COLUMNS: Final = ("", "asked for /s", "answered well /s", "mean ms", "p95 ms", "p99 ms", "errors %", "lost",
                  "CPU of the hosts")  # fmt: skip


def sections(outcomes: Sequence[Outcome], farm: Farm, min_ttl: int) -> list[Section]:
    kept = f"As long as {min_ttl} s resolvers keep what they were told, although the TTL is 0."
    return [
        _section("Nothing else", "quiet", outcomes, farm, ["For comparison: the farm has nothing but this load."]),
        _section("CPU burners", "burners", outcomes, farm, _burners(part(outcomes, "burners"))),
        _section("Disk writers", "writers", outcomes, farm, _writers(part(outcomes, "writers"))),
        _death("A web server dies", "web dies", outcomes, farm, "Apache is killed; its host and agent go on."),
        _death("A host dies", "host dies", outcomes, farm, (
            "Apache and the agent are killed at the same moment. The host's kernel goes on and refuses connections; "
            "with a machine that is gone, clients would wait for their time-out instead.")),
        _crowd(outcomes, farm),
        _section("Resolvers", "resolvers", outcomes, farm, [
            "Clients ask caching resolvers (unbound), which honour the TTL of 0."]),
        _section("Resolvers that keep", "keeping", outcomes, farm, [
            kept, "Whoever chooses by DNS chooses once in that time for all clients of a resolver."]),
    ]  # fmt: skip


def _section(
    heading: str,
    name: str,
    outcomes: Sequence[Outcome],
    farm: Farm,
    words: Sequence[str],
    more: Sequence[Table] = (),
    marks: Mapping[str, float] | None = None,
) -> Section:
    of = part(outcomes, name)
    if not of:
        return Section(heading, ["This was not measured: no result."])
    hosts = [host.name for host in farm.hosts]
    pictures = course(f"other-{name.replace(' ', '-')}", heading, of, hosts, marks=marks)
    return Section(heading, [*words, *beside_round_robin(of), *saturated(of)], [table(of, hosts), *more], pictures)


def table(outcomes: Sequence[Outcome], hosts: Sequence[str]) -> Table:
    """A line for each selection, means over repetitions; where each host's share of the requests is known, that too."""
    rows: list[list[Cell]] = []
    for selection in selections(outcomes):
        of = [outcome for outcome in outcomes if outcome.case.selection == selection]
        shared = [outcome.row.figures.shares for outcome in of if outcome.row.figures.shares]
        rows.append([
            selection, points.mean(o.row.point.rate_per_s for o in of), mean(of, "requests_per_s"),
            mean(of, "mean_s", 1000), mean(of, "p95_s", 1000), mean(of, "p99_s", 1000), mean(of, "error_percent"),
            mean(of, "failed"), mean_cpu(of, hosts),
            *(points.mean(100 * shares.get(host, 0.0) for shares in shared) for host in hosts),
        ])  # fmt: skip
    columns = (*COLUMNS, *(f"{host} got %" for host in hosts))
    return Table("CPU in % of one core", columns, rows)


def _burners(outcomes: Sequence[Outcome]) -> list[str]:
    hosts = dict.fromkeys(str(outcome.case.more["host"]) for outcome in outcomes)
    return [f"{BURNERS} busy loops on {host}, under the same quota as its web server." for host in hosts]


def _writers(outcomes: Sequence[Outcome]) -> list[str]:
    hosts = dict.fromkeys(str(outcome.case.more["host"]) for outcome in outcomes)
    size = BLOCK_KB * BLOCKS / 1024
    words = [f"A program on each of {host} writes {size:g} MB and waits until they are on the disk, over and over."
             for host in hosts]  # fmt: skip
    for kind in dict.fromkeys(str(outcome.case.more["filesystem"]) for outcome in outcomes):
        if kind in MEMORY_ONLY:
            words.append(
                f"The lab's folder is on {kind}, in memory: here writers took processor, and waited for no disk."
            )
        else:
            words.append(f"The file system was {kind or 'not known'}; all hosts share the machine's disk.")
    return words


def _death(heading: str, name: str, outcomes: Sequence[Outcome], farm: Farm, what: str) -> Section:
    of = part(outcomes, name)
    rows: list[list[Cell]] = []
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
    columns = ("", "host", "died at s", "handed out for s", "back at s", "handed out again after s", "lost",
               "lost in the worst second")  # fmt: skip
    caption = "Seconds of the run; how long it was handed out is seen twice a second, and told up to that much too long"
    return _section(heading, name, outcomes, farm, words, [Table(caption, columns, rows)], marks)


def death_sentence(outcome: Outcome) -> str:
    """How long nobody knew, and whether it came back."""
    more, selection = outcome.case.more, outcome.case.selection
    gone, back = more.get("handed_out_for_s"), more.get("handed_out_after_s")
    if "died_s" not in more:
        return f"{selection}: nothing died before the measurement was over: no result."
    if gone is None:
        until = "how long it was still handed out is not known"
    elif gone:
        until = f"nobody was sent there any more {float(gone):.2g} s after its death"
    else:
        until = "nobody was sent there after its death"
    if "back_s" not in more:
        return f"{selection}: {until}; it wasn't back before the end."
    again = (
        "it was not handed out again before the end"
        if back is None
        else f"{float(back):.2g} s after it was back, it was handed out again"
    )
    return f"{selection}: {until}; {again}. {outcome.row.figures.failed} requests were lost."


def _crowd(outcomes: Sequence[Outcome], farm: Farm) -> Section:
    of = part(outcomes, "crowd")
    marks: dict[str, float] = {}
    if of:
        begin, length = float(of[0].case.more["begin_s"]), float(of[0].case.more["length_s"])
        marks = {"crowd": begin, "over": begin + length}
    words = ["For some seconds ten times as many come: a little less than best carries.", *_recovered(of)]
    return _section("A flash crowd", "crowd", outcomes, farm, words, (), marks)


def _recovered(outcomes: Sequence[Outcome]) -> list[str]:
    """How long after the crowd responses still took twice as long as before it."""
    words = []
    for outcome in outcomes:
        begin = float(outcome.case.more["begin_s"])
        end = begin + float(outcome.case.more["length_s"])
        parts = windows(outcome.row)
        usual = points.mean(part.response_s for part in parts if part.middle_s < begin)
        if usual is None:
            continue
        late = [p.middle_s + 0.5 - end for p in parts
                if p.middle_s > end and (p.response_s or 0.0) > max(2 * usual, NOTICED_S)]  # fmt: skip
        words.append(
            f"{outcome.case.selection}: responses were back to usual {max(late):.0f} s after the crowd."
            if late
            else f"{outcome.case.selection}: responses were back to usual as soon as the crowd was over."
        )
    return words
