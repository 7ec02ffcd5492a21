"""What the report of ``balancers`` shows: the studies' parts, and what choosing by DNS and by a proxy costs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from lbdns_tools.lab.addresses import DNS
from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import Farm
from lbdns_tools.lab.presets.demands import agents_mean
from lbdns_tools.lab.presets.loading import mean, mean_cpu, most_memory, part, selections
from lbdns_tools.lab.presets.points import mean as mean_of
from lbdns_tools.lab.presets.points import quotient
from lbdns_tools.lab.report import pictures
from lbdns_tools.lab.report.section import Cell, Picture, Section, Table

#: ab -n 50000 -c 300
AB_REQUESTS: Final = 50_000
AB_CLIENTS: Final = 300
KB: Final = 1000.0 / 8 / 1.024  # of Mbit/s: ab's kilobytes have 1024 bytes


@dataclass(frozen=True, slots=True)
class Front:
    """A balancer in front, and the method by which it chooses."""

    proxy: str
    method: str


@dataclass(frozen=True, slots=True)
class Ab:
    """A line of the study's table: failed requests, then s, ms, ms, ms and KB/s."""

    target: str
    failed: int
    time_s: float
    mean_ms: float
    p50_ms: float
    longest_ms: float
    kb_per_s: float


#: The study of 2014, by the selection that comes closest: one Apache by itself, and three balancers in front of two
STUDY_AB: Final[Mapping[str, Ab]] = {
    "direct": Ab("Apache alone", 0, 27.884, 167.305, 38, 27_869, 691.69),
    "nginx": Ab("nginx", 0, 57.905, 347.432, 89, 57_885, 332.24),
    "haproxy": Ab("HAProxy", 0, 20.481, 122.887, 91, 1366, 941.7),
    "pound": Ab("Pound", 12, 55.778, 334.671, 111, 55_761, 345.7),
}

HONEST: Final = (
    "A proxy sees each request begin and end: it can send the next to the host that has the fewest under way at this "
    "moment, ask another host when one doesn't answer, and take a host out between two requests. DNS can do none of "
    "this: it gives an address away, learns from reports once a second what became of it, and a client or a cache may "
    "keep the address longer than it should.",
    "In return a proxy carries every byte there and back, is one more machine that must not fail, and costs processor "
    "time for every connection, in the table below. What lbdns takes is for the answer alone, its collector included; "
    "the agents' part is that of the web hosts.",
    "Times are those of the HTTP request. The look-up before it, which only those wait for who ask DNS, is a figure of "
    "its own; in requests/s it is contained, as a client does one after the other.",
    "That two rules of choosing are behind the same proxy shows what is the rule's and what is the proxy's doing: in "
    "turns, the slowest host sets the pace in front of a proxy as it does in DNS.",
)


def sections(
    outcomes: Sequence[Outcome], farm: Farm, fronts: Mapping[str, Front], left_out: Sequence[str]
) -> list[Section]:
    """Those for which something was measured."""
    words = [f"{name} is not installed on this machine, or not part of the farm: left out." for name in left_out]
    found = [
        _web(part(outcomes, "web"), farm, fronts, [*HONEST, *words]),
        _sweep(part(outcomes, "sweep")),
        _ab(part(outcomes, "ab")),
        _rates(part(outcomes, "rate"), fronts),
    ]
    return [section for section in found if section.tables]


def front_group(selection: str, fronts: Mapping[str, Front]) -> str | None:
    """The group of what chooses: the proxy, or lbdns; None for a host by itself."""
    if selection in fronts:
        return fronts[selection].proxy
    return None if selection == "direct" else DNS


def ms_per_request(outcomes: Sequence[Outcome], group: str) -> float | None:
    """Processor time of a group for each request that went well."""
    percent = mean_cpu(outcomes, [group])
    per_s = quotient(percent, mean(outcomes, "requests_per_s"))
    return None if per_s is None else 10 * per_s  # % of a core are 10 ms in each second


def _web(outcomes: Sequence[Outcome], farm: Farm, fronts: Mapping[str, Front], words: Sequence[str]) -> Section:
    columns = (
        "workload", "selection", "requests/s", "/ best", "mean, s", "look-up, s", "p95, s", "p95 / best", "errors, %",
        "what chooses, % of a core", "its ms/request", "its memory, MB", "an agent, % of a core",
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for workload in dict.fromkeys(o.case.workload for o in outcomes):
        of = [o for o in outcomes if o.case.workload == workload]
        best = _by(of, "best")
        rows += [_web_row(workload, selection, _by(of, selection), best, fronts) for selection in selections(of)]
    hosts = ", ".join(f"{host.name} {host.cpu:g}" for host in farm.hosts)
    table = Table(f"WebStone's files; hosts with {hosts} cores", columns, rows)
    drawn = [
        Picture("web-throughput", "Requests/s that went well, each workload in parts of its most",
                partial(pictures.bars, groups=_parts_of_most(outcomes), y="part of the most requests/s")),
    ]  # fmt: skip
    return Section(
        "The same hosts behind DNS and behind proxies", words, (table,) if rows else (), drawn if rows else ()
    )


def _parts_of_most(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float | None]]:
    """Workload -> selection -> requests/s: workloads differ too much for one axis, and no bar is logarithmic."""
    parts = {}
    for workload in dict.fromkeys(o.case.workload for o in outcomes):
        of = [o for o in outcomes if o.case.workload == workload]
        rates = {selection: mean(_by(of, selection), "requests_per_s") for selection in selections(outcomes)}
        most = max((rate for rate in rates.values() if rate is not None), default=None)
        parts[workload] = {selection: quotient(rate, most) for selection, rate in rates.items()}
    return parts


def _web_row(
    workload: str, selection: str, of: Sequence[Outcome], best: Sequence[Outcome], fronts: Mapping[str, Front]
) -> tuple[Cell, ...]:
    group = front_group(selection, fronts)
    rate, p95 = mean(of, "requests_per_s"), mean(of, "p95_s")
    return (
        workload, selection, rate, quotient(rate, mean(best, "requests_per_s")), mean(of, "mean_s"),
        mean(of, "dns_mean_s"), p95, quotient(p95, mean(best, "p95_s")), mean(of, "error_percent"),
        mean_cpu(of, [group]) if group else None, ms_per_request(of, group) if group else None,
        most_memory(of, group) if group else None, agents_mean(of),
    )  # fmt: skip


def _sweep(outcomes: Sequence[Outcome]) -> Section:
    """Concurrency: a table for each figure, a column for each selection."""
    names = selections(outcomes)
    figures = (
        ("requests_per_s", 1.0, "requests/s"), ("mean_s", 1000.0, "mean latency, ms"), ("p95_s", 1000.0, "p95, ms"),
        ("dns_mean_s", 1000.0, "mean time of the look-up before, ms"),
        ("max_s", 1000.0, "longest, ms"), ("error_percent", 1.0, "errors, %"),
    )  # fmt: skip
    tables, drawn = [], []
    for figure, times, words in figures if outcomes else ():
        series = {
            name: [(float(count), mean(_at(_by(outcomes, name), count), figure, times)) for count in _counts(outcomes)]
            for name in names
        }
        rows = [(count, *(series[name][at][1] for name in names)) for at, count in enumerate(_counts(outcomes))]
        tables.append(Table(words, ("at a time", *names), rows))
        if figure in ("requests_per_s", "mean_s", "p95_s"):
            draw = partial(
                pictures.lines, series=series, x="requests at a time", y=words, log=figure != "requests_per_s"
            )
            drawn.append(Picture(f"sweep-{figure}", f"Concurrency sweep: {words}", draw))
    words = "So many clients that each ask for a page of 1 kB again and again, without keep-alive, 5000 times in all."
    return Section("Concurrency sweep", (words,), tables, drawn)


def _ab(outcomes: Sequence[Outcome]) -> Section:
    columns = (
        "selection", "requests", "failed", "time, s", "mean, ms", "p50, ms", "longest, ms", "KB/s",
        "study of 2014", "failed", "time, s", "mean, ms", "p50, ms", "longest, ms", "KB/s",
    )  # fmt: skip
    rows = [(name, *_ab_row(_by(outcomes, name)), *_study_row(name)) for name in selections(outcomes)]
    table = Table(f"{AB_CLIENTS} at a time; bodies without headers here", columns, rows)
    words = f"The study ran ab -n {AB_REQUESTS} -c {AB_CLIENTS} on other machines: compare who is ahead, not figures."
    return Section("The table of ab", (words,), (table,) if rows else ())


def _ab_row(of: Sequence[Outcome]) -> tuple[Cell, ...]:
    figures = (("requests", 1.0), ("failed", 1.0), ("seconds", 1.0), ("mean_s", 1000.0), ("p50_s", 1000.0),
               ("max_s", 1000.0), ("mbit_per_s", KB))  # fmt: skip
    return tuple(
        mean_of(o.row.figures.seconds for o in of) if name == "seconds" else mean(of, name, times)
        for name, times in figures
    )


def _study_row(selection: str) -> tuple[Cell, ...]:
    line = STUDY_AB.get(selection)
    if line is None:
        return ("", *[None] * 6)
    return (line.target, line.failed, line.time_s, line.mean_ms, line.p50_ms, line.longest_ms, line.kb_per_s)


def _rates(outcomes: Sequence[Outcome], fronts: Mapping[str, Front]) -> Section:
    columns = (
        "selection", "rate, requests/s", "requests/s", "mean, s", "p95, s", "errors, %", "what chooses, % of a core",
        "its ms/request",
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    cpu: dict[str, list[tuple[float, float | None]]] = {}
    latency: dict[str, list[tuple[float, float | None]]] = {}
    for name in selections(outcomes):
        group, of = front_group(name, fronts), _by(outcomes, name)
        for rate in sorted({o.row.point.rate_per_s or 0.0 for o in of}):
            at = [o for o in of if o.row.point.rate_per_s == rate]
            percent = mean_cpu(at, [group]) if group else None
            figures = [mean(at, figure) for figure in ("requests_per_s", "mean_s", "p95_s", "error_percent")]
            rows.append((name, rate, *figures, percent, ms_per_request(at, group) if group else None))
            cpu.setdefault(name, []).append((rate, percent))
            latency.setdefault(name, []).append((rate, figures[2]))
    table = Table("Rates that come whether or not others have been answered; a page that sleeps 0.2 s", columns, rows)
    words = (
        "The study went from 100 to 2000 connections/s with two balancers. Here rates are even parts of what best "
        "carries of this page, and a selection's sweep ends where more than half has failed.",
    )
    drawn = _drawn(("rate-cpu", "CPU of what chooses", cpu, "% of a core", False),
                   ("rate-p95", "95 % of responses took at most", latency, "s", True))  # fmt: skip
    return Section("Rate sweep", words, (table,) if rows else (), drawn if rows else ())


def _drawn(*wanted: tuple[str, str, pictures.Series, str, bool]) -> list[Picture]:
    return [
        Picture(name, caption, partial(pictures.lines, series=series, x="requests/s", y=y, log=log))
        for name, caption, series, y, log in wanted
    ]


def _by(outcomes: Iterable[Outcome], selection: str) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.case.selection == selection]


def _at(outcomes: Iterable[Outcome], clients: int) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.row.point.clients == clients]


def _counts(outcomes: Iterable[Outcome]) -> list[int]:
    return sorted({outcome.row.point.clients or 0 for outcome in outcomes})
