"""The report of the study ``balancers``: web files, concurrency sweep, table of ab, rate sweep, cost of choosing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.farm.machine_addresses import DNS
from lbdns_tools.lab.measuring.measured_case import MeasuredOutcome
from lbdns_tools.lab.report import report_charts
from lbdns_tools.lab.report.report_sections import ReportCell, ReportPicture, ReportSection, SectionTable
from lbdns_tools.lab.statistics.outcome_index import (
    by_selection,
    mean_cpu,
    mean_of,
    mean_of_known,
    most_memory,
    part,
    quotient,
)
from lbdns_tools.lab.statistics.webstone_demands import agents_mean

#: ab -n 50000 -c 300
AB_REQUESTS: Final = 50_000
AB_CLIENTS: Final = 300
KB: Final = 1000.0 / 8 / 1.024  # KB/s in one Mbit/s; ab's kilobytes have 1024 bytes


@dataclass(frozen=True, slots=True)
class FrontBalancer:
    """A balancer in front of the hosts, and its method of choosing."""

    proxy: str
    method: str


@dataclass(frozen=True, slots=True)
class AbRow:
    """A line of the ab table in the study of 2014."""

    target: str
    failed: int
    time_s: float
    mean_ms: float
    p50_ms: float
    longest_ms: float
    kb_per_s: float


#: The table of 2014 by the closest selection: one Apache alone, and three balancers in front of two
STUDY_AB: Final[Mapping[str, AbRow]] = {
    "direct": AbRow("Apache alone", 0, 27.884, 167.305, 38, 27_869, 691.69),
    "nginx": AbRow("nginx", 0, 57.905, 347.432, 89, 57_885, 332.24),
    "haproxy": AbRow("HAProxy", 0, 20.481, 122.887, 91, 1366, 941.7),
    "pound": AbRow("Pound", 12, 55.778, 334.671, 111, 55_761, 345.7),
}

HONEST: Final = (
    "A proxy sees the start and end of each request: it can send the next request to the host with the fewest "
    "outstanding requests, retry a request at another host, and remove a host between two requests. DNS can do none of "
    "this: it hands out an address, sees the effect in reports once a second, and clients or caches may keep the "
    "address longer than they should.",
    "In return, a proxy carries every byte in both directions, is one more machine that must not fail, and costs CPU "
    "time for every connection, as the table below shows. lbdns uses CPU only for answers and for its collector, which "
    "the table includes; the agents run on the web hosts.",
    "Times are those of the HTTP request alone. The DNS look-up before it, which only DNS-based selections need, has a "
    "column of its own. The throughput includes look-ups, because a client sends its request after the look-up.",
    "The same proxy with two methods shows which effects come from the method and which from the proxy: with round "
    "robin, the slowest host sets the pace behind a proxy as it does with DNS.",
)


def sections(
    outcomes: Sequence[MeasuredOutcome], farm: LabFarm, fronts: Mapping[str, FrontBalancer], left_out: Sequence[str]
) -> list[ReportSection]:
    """Return the sections for which something was measured."""
    words = [f"{name} was left out: it is not installed, or not part of the farm." for name in left_out]
    found = [
        _web(part(outcomes, "web"), farm, fronts, [*HONEST, *words]),
        _sweep(part(outcomes, "sweep")),
        _ab(part(outcomes, "ab")),
        _rates(part(outcomes, "rate"), fronts),
    ]
    return [section for section in found if section.tables]


def front_group(selection: str, fronts: Mapping[str, FrontBalancer]) -> str | None:
    """Return the control group of the chooser: the proxy, or lbdns; None for a host alone."""
    if selection in fronts:
        return fronts[selection].proxy
    return None if selection == "direct" else DNS


def ms_per_request(outcomes: Sequence[MeasuredOutcome], group: str) -> float | None:
    """Return the CPU time of a control group per successful request, in ms."""
    percent = mean_cpu(outcomes, [group])
    per_s = quotient(percent, mean_of(outcomes, "requests_per_s"))
    return None if per_s is None else 10 * per_s  # % of a core are 10 ms in each second


def _web(
    outcomes: Sequence[MeasuredOutcome], farm: LabFarm, fronts: Mapping[str, FrontBalancer], words: Sequence[str]
) -> ReportSection:
    columns = (
        "workload", "selection", "requests/s", "/ best", "mean, s", "look-up, s", "p95, s", "p95 / best", "errors, %",
        "the chooser, % of a core", "its ms/request", "its memory, MB", "an agent, % of a core",
    )  # fmt: skip
    rows: list[tuple[ReportCell, ...]] = []
    for workload in dict.fromkeys(o.case.workload for o in outcomes):
        of = [o for o in outcomes if o.case.workload == workload]
        best = _by(of, "best")
        rows += [_web_row(workload, selection, _by(of, selection), best, fronts) for selection in by_selection(of)]
    hosts = ", ".join(f"{host.name} {host.cpu:g}" for host in farm.hosts)
    table = SectionTable(f"WebStone's files; hosts with {hosts} cores", columns, rows)
    drawn = [
        ReportPicture("web-throughput", "Successful requests/s, as a share of each workload's highest",
                partial(report_charts.bars, groups=_parts_of_most(outcomes), y="share of the highest requests/s")),
    ]  # fmt: skip
    return ReportSection(
        "The same hosts behind DNS and behind proxies", words, (table,) if rows else (), drawn if rows else ()
    )


def _parts_of_most(outcomes: Sequence[MeasuredOutcome]) -> dict[str, dict[str, float | None]]:
    """Return each selection's share of the highest requests/s, by workload.

    The workloads differ too much for one axis, and bars cannot be logarithmic.
    """
    parts = {}
    for workload in dict.fromkeys(o.case.workload for o in outcomes):
        of = [o for o in outcomes if o.case.workload == workload]
        rates = {selection: mean_of(_by(of, selection), "requests_per_s") for selection in by_selection(outcomes)}
        most = max((rate for rate in rates.values() if rate is not None), default=None)
        parts[workload] = {selection: quotient(rate, most) for selection, rate in rates.items()}
    return parts


def _web_row(
    workload: str,
    selection: str,
    of: Sequence[MeasuredOutcome],
    best: Sequence[MeasuredOutcome],
    fronts: Mapping[str, FrontBalancer],
) -> tuple[ReportCell, ...]:
    group = front_group(selection, fronts)
    rate, p95 = mean_of(of, "requests_per_s"), mean_of(of, "p95_s")
    return (
        workload, selection, rate, quotient(rate, mean_of(best, "requests_per_s")), mean_of(of, "mean_s"),
        mean_of(of, "dns_mean_s"), p95, quotient(p95, mean_of(best, "p95_s")), mean_of(of, "error_percent"),
        mean_cpu(of, [group]) if group else None, ms_per_request(of, group) if group else None,
        most_memory(of, group) if group else None, agents_mean(of),
    )  # fmt: skip


def _sweep(outcomes: Sequence[MeasuredOutcome]) -> ReportSection:
    """Return the concurrency sweep: a table for each figure, with a column for each selection."""
    names = list(by_selection(outcomes))
    figures = (
        ("requests_per_s", 1.0, "requests/s"), ("mean_s", 1000.0, "mean latency, ms"), ("p95_s", 1000.0, "p95, ms"),
        ("dns_mean_s", 1000.0, "mean time of the DNS look-up, ms"),
        ("max_s", 1000.0, "longest, ms"), ("error_percent", 1.0, "errors, %"),
    )  # fmt: skip
    tables, drawn = [], []
    for figure, times, words in figures if outcomes else ():
        series = {
            name: [
                (float(count), mean_of(_at(_by(outcomes, name), count), figure, times)) for count in _counts(outcomes)
            ]
            for name in names
        }
        rows = [(count, *(series[name][at][1] for name in names)) for at, count in enumerate(_counts(outcomes))]
        tables.append(SectionTable(words, ("concurrent", *names), rows))
        if figure in ("requests_per_s", "mean_s", "p95_s"):
            draw = partial(
                report_charts.lines, series=series, x="concurrent requests", y=words, log=figure != "requests_per_s"
            )
            drawn.append(ReportPicture(f"sweep-{figure}", f"Concurrency sweep: {words}", draw))
    words = "Concurrent clients fetch a page of 1 kB repeatedly, without keep-alive, 5000 times in total."
    return ReportSection("Concurrency sweep", (words,), tables, drawn)


def _ab(outcomes: Sequence[MeasuredOutcome]) -> ReportSection:
    columns = (
        "selection", "requests", "failed", "time, s", "mean, ms", "p50, ms", "longest, ms", "KB/s",
        "study of 2014", "failed", "time, s", "mean, ms", "p50, ms", "longest, ms", "KB/s",
    )  # fmt: skip
    rows = [(name, *_ab_row(_by(outcomes, name)), *_study_row(name)) for name in by_selection(outcomes)]
    table = SectionTable(f"{AB_CLIENTS} concurrent requests; the lab's KB/s exclude headers", columns, rows)
    words = (
        f"The study ran ab -n {AB_REQUESTS} -c {AB_CLIENTS} on other machines: compare the ranking, not the figures."
    )
    return ReportSection("The table of ab", (words,), (table,) if rows else ())


def _ab_row(of: Sequence[MeasuredOutcome]) -> tuple[ReportCell, ...]:
    figures = (("requests", 1.0), ("failed", 1.0), ("seconds", 1.0), ("mean_s", 1000.0), ("p50_s", 1000.0),
               ("max_s", 1000.0), ("mbit_per_s", KB))  # fmt: skip
    return tuple(
        mean_of_known(o.row.figures.seconds for o in of) if name == "seconds" else mean_of(of, name, times)
        for name, times in figures
    )


def _study_row(selection: str) -> tuple[ReportCell, ...]:
    line = STUDY_AB.get(selection)
    if line is None:
        return ("", *[None] * 6)
    return (line.target, line.failed, line.time_s, line.mean_ms, line.p50_ms, line.longest_ms, line.kb_per_s)


def _rates(outcomes: Sequence[MeasuredOutcome], fronts: Mapping[str, FrontBalancer]) -> ReportSection:
    columns = (
        "selection", "rate, requests/s", "requests/s", "mean, s", "p95, s", "errors, %", "the chooser, % of a core",
        "its ms/request",
    )  # fmt: skip
    rows: list[tuple[ReportCell, ...]] = []
    cpu: dict[str, list[tuple[float, float | None]]] = {}
    latency: dict[str, list[tuple[float, float | None]]] = {}
    for name, of in by_selection(outcomes).items():
        group = front_group(name, fronts)
        for rate in sorted({o.row.point.rate_per_s or 0.0 for o in of}):
            at = [o for o in of if o.row.point.rate_per_s == rate]
            percent = mean_cpu(at, [group]) if group else None
            figures = [mean_of(at, figure) for figure in ("requests_per_s", "mean_s", "p95_s", "error_percent")]
            rows.append((name, rate, *figures, percent, ms_per_request(at, group) if group else None))
            cpu.setdefault(name, []).append((rate, percent))
            latency.setdefault(name, []).append((rate, figures[2]))
    table = SectionTable("Requests arrive independently of responses; the page sleeps 0.2 s", columns, rows)
    words = (
        "The study went from 100 to 2000 connections/s with two balancers. Here, the rates are equal fractions of the "
        "rate that best carries for this page, and a selection's sweep ends when more than half of the requests fail.",
    )
    drawn = _drawn(("rate-cpu", "CPU of the chooser", cpu, "% of a core", False),
                   ("rate-p95", "95th percentile of response times", latency, "s", True))  # fmt: skip
    return ReportSection("Rate sweep", words, (table,) if rows else (), drawn if rows else ())


def _drawn(*wanted: tuple[str, str, report_charts.Series, str, bool]) -> list[ReportPicture]:
    return [
        ReportPicture(name, caption, partial(report_charts.lines, series=series, x="requests/s", y=y, log=log))
        for name, caption, series, y, log in wanted
    ]


def _by(outcomes: Iterable[MeasuredOutcome], selection: str) -> list[MeasuredOutcome]:
    return [outcome for outcome in outcomes if outcome.case.selection == selection]


def _at(outcomes: Iterable[MeasuredOutcome], clients: int) -> list[MeasuredOutcome]:
    return [outcome for outcome in outcomes if outcome.row.point.clients == clients]


def _counts(outcomes: Iterable[MeasuredOutcome]) -> list[int]:
    return sorted({outcome.row.point.clients or 0 for outcome in outcomes})
