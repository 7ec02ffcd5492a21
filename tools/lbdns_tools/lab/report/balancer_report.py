"""The report of the study ``balancers``, with WebStone's files, two sweeps, the results of ab, and CPU costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import DIRECT, front_group
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report import report_charts
from lbdns_tools.lab.report.balancer_variants_report import variant_sections
from lbdns_tools.lab.report.outcome_index import (
    by_selection,
    mean_cpu,
    mean_of,
    mean_of_known,
    means,
    most_memory,
    ms_per_request,
    part,
    quotient,
    scaled,
)
from lbdns_tools.lab.report.report_page import ReportCell, ReportPicture, ReportSection, SectionTable
from lbdns_tools.lab.report.webstone_demands import agents_mean

#: ab -n 50000 -c 300
AB_REQUESTS: Final = 50_000
AB_CLIENTS: Final = 300
KB: Final = 1000.0 / 8 / 1.024  # KB/s in one Mbit/s; ab's kilobytes have 1024 bytes
AB_COLUMNS: Final = ("failed", "time, s", "mean, ms", "p50, ms", "longest, ms", "KB/s")
#: The table of 2014, by the closest selection: one Apache alone, and three balancers, each in front of two Apaches
STUDY_AB: Final[Mapping[str, tuple[ReportCell, ...]]] = {
    DIRECT: ("Apache alone", 0, 27.884, 167.305, 38, 27_869, 691.69),
    "nginx": ("nginx", 0, 57.905, 347.432, 89, 57_885, 332.24),
    "haproxy": ("HAProxy", 0, 20.481, 122.887, 91, 1366, 941.7),
    "pound": ("Pound", 12, 55.778, 334.671, 111, 55_761, 345.7),
}

HONEST: Final = (
    "A proxy sees the start and end of each request. A proxy can therefore send the next request to the host with "
    "the fewest outstanding requests, retry a request on another host, and remove a host between two requests. A "
    "DNS server only returns addresses, and can observe the effects only in later reports. Clients or caches may "
    "also keep an address longer than its TTL.",
    "On the other hand, a proxy forwards every byte in both directions, adds a single point of failure, and uses "
    "CPU time for every connection. lbdns uses CPU time only for answers and for its collector. The table shows the "
    "CPU time of each proxy and of lbdns. The agents run on the web hosts.",
    "Response times exclude DNS lookups, which the table shows in a separate column. Only selection through DNS "
    "requires lookups. Throughput includes lookups, because a client sends its request only after the lookup.",
    "Each proxy is measured with two methods to separate the effects of the method from those of the proxy. "
    "With round robin, the slowest host limits throughput, both with a proxy and with DNS.",
)


def sections(outcomes: Sequence[MeasuredOutcome], farm: LabFarm, left_out: Sequence[str]) -> list[ReportSection]:
    """Return all sections of the report that contain at least one result."""
    words = [f"{name} was omitted, because the program is not installed or not part of the farm." for name in left_out]
    found = [
        _web(part(outcomes, "web"), farm, [*HONEST, *words]),
        _sweep(part(outcomes, "sweep")),
        _ab(part(outcomes, "ab")),
        _rates(part(outcomes, "rate")),
        *variant_sections(outcomes),
    ]
    return [section for section in found if any(table.rows for table in section.tables)]


def _web(outcomes: Sequence[MeasuredOutcome], farm: LabFarm, words: Sequence[str]) -> ReportSection:
    columns = (
        "workload", "selection", "requests/s", "/ best", "mean, s", "lookup, s", "p95, s", "p95 / best", "errors, %",
        "CPU use of balancer or lbdns, % of one core", "its CPU ms/request", "its memory, MB",
        "mean CPU use per agent, % of one core",
    )  # fmt: skip
    rows: list[tuple[ReportCell, ...]] = []
    shares: dict[str, dict[str, float | None]] = {}
    for workload in dict.fromkeys(o.case.workload for o in outcomes):
        of = by_selection(o for o in outcomes if o.case.workload == workload)
        rows += [_web_row(workload, selection, each, of.get("best", [])) for selection, each in of.items()]
        rates = {selection: mean_of(of.get(selection, []), "requests_per_s") for selection in by_selection(outcomes)}
        most = max((rate for rate in rates.values() if rate is not None), default=None)
        shares[workload] = {selection: quotient(rate, most) for selection, rate in rates.items()}
    hosts = ", ".join(f"{host.name} {host.cpu:g}" for host in farm.hosts)
    table = SectionTable(f"WebStone's files; cores per host: {hosts}", columns, rows)
    # The chart shows shares: the workloads differ too much for one axis, and bars cannot be logarithmic
    draw = partial(report_charts.bars, groups=shares, y="requests/s, share of the highest")
    caption = "Successful requests/s, relative to the highest rate in the workload"
    drawn = [ReportPicture("web-throughput", caption, draw)]
    return ReportSection("The same hosts behind DNS and behind proxies", words, (table,), drawn)


def _web_row(
    workload: str, selection: str, of: Sequence[MeasuredOutcome], best: Sequence[MeasuredOutcome]
) -> tuple[ReportCell, ...]:
    group = front_group(selection)
    rate, p95, mean, look_up, errors = means(
        of, "requests_per_s", "p95_s", "mean_s", "dns_mean_s", "error_percent"
    )  # fmt: skip
    return (
        workload, selection, rate, quotient(rate, mean_of(best, "requests_per_s")), mean, look_up, p95,
        quotient(p95, mean_of(best, "p95_s")), errors, mean_cpu(of, [group]) if group else None,
        ms_per_request(of, group) if group else None, most_memory(of, group) if group else None, agents_mean(of),
    )  # fmt: skip


def _sweep(outcomes: Sequence[MeasuredOutcome]) -> ReportSection:
    by_name = by_selection(outcomes)
    counts = sorted({outcome.row.point.clients or 0 for outcome in outcomes})
    figures = {
        "requests_per_s": "requests/s", "mean_ms": "mean latency, ms", "p95_ms": "p95, ms",
        "dns_mean_ms": "mean DNS lookup time, ms", "max_ms": "longest, ms", "error_percent": "errors, %",
    }  # fmt: skip
    tables: list[SectionTable] = []
    drawn: list[ReportPicture] = []
    for figure, words in figures.items():
        series: dict[str, report_charts.Line] = {}
        for name, of in by_name.items():
            series[name] = [
                (count, mean_of([o for o in of if o.row.point.clients == count], figure)) for count in counts
            ]
        rows = [(count, *(points[at][1] for points in series.values())) for at, count in enumerate(counts)]
        tables.append(SectionTable(words, ("concurrent", *by_name), rows))
        if figure in ("requests_per_s", "mean_ms", "p95_ms"):
            name, log = figure.replace("_ms", "_s"), figure != "requests_per_s"
            caption = f"Concurrency sweep: {words}"
            drawn += report_charts.chart(f"sweep-{name}", caption, series, "concurrent requests", words, log=log)
    words = "Concurrent clients send a total of 5000 requests for a 1 kB page, without keep-alive."
    return ReportSection("Concurrency sweep", (words,), tables, drawn)


def _ab(outcomes: Sequence[MeasuredOutcome]) -> ReportSection:
    columns = ("selection", "requests", *AB_COLUMNS, "2014 study", *AB_COLUMNS)
    rows = [
        (name, *_ab_row(of), *STUDY_AB.get(name, ("", *[None] * len(AB_COLUMNS))))
        for name, of in by_selection(outcomes).items()
    ]
    table = SectionTable(
        f"{AB_CLIENTS} concurrent requests; the lab's KB/s figures exclude HTTP headers", columns, rows
    )
    words = f"The study ran ab -n {AB_REQUESTS} -c {AB_CLIENTS} on other machines, so only the rankings are comparable."
    return ReportSection("The table of ab", (words,), (table,))


def _ab_row(of: Sequence[MeasuredOutcome]) -> tuple[ReportCell, ...]:
    seconds = mean_of_known(o.row.figures.seconds for o in of)
    kb_per_s = scaled(mean_of(of, "mbit_per_s"), KB)
    return (*means(of, "requests", "failed"), seconds, *means(of, "mean_ms", "p50_ms", "max_ms"), kb_per_s)


def _rates(outcomes: Sequence[MeasuredOutcome]) -> ReportSection:
    columns = (
        "selection", "rate, requests/s", "requests/s", "mean, s", "p95, s", "errors, %",
        "CPU use of balancer or lbdns, % of one core", "its CPU ms/request",
    )  # fmt: skip
    rows: list[tuple[ReportCell, ...]] = []
    cpu: dict[str, report_charts.Line] = {}
    latency: dict[str, report_charts.Line] = {}
    for name, of in by_selection(outcomes).items():
        group = front_group(name)
        for rate in sorted({o.row.point.rate_per_s or 0.0 for o in of}):
            at = [o for o in of if o.row.point.rate_per_s == rate]
            percent = mean_cpu(at, [group]) if group else None
            figures = means(at, "requests_per_s", "mean_s", "p95_s", "error_percent")
            rows.append((name, rate, *figures, percent, ms_per_request(at, group) if group else None))
            cpu.setdefault(name, []).append((rate, percent))
            latency.setdefault(name, []).append((rate, figures[2]))
    table = SectionTable("Requests do not wait for responses; each request takes at least 0.2 s", columns, rows)
    words = (
        "The study measured two balancers at 100 to 2000 connections/s. In the lab, the rates rise in equal steps "
        "to the rate that the farm sustains for this page with 'best'. If more than half of the requests fail, the "
        "sweep ends for that selection.",
    )
    p95_words = "95th percentile of response times"
    drawn = [
        *report_charts.chart("rate-cpu", "CPU use of the balancer or lbdns", cpu, "requests/s", "% of a core"),
        *report_charts.chart("rate-p95", p95_words, latency, "requests/s", "s", log=True),
    ]
    return ReportSection("Rate sweep", words, (table,), drawn)
