"""The report of the study ``far``: throughput and response times by distance, and by what happens to reports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report import report_charts
from lbdns_tools.lab.report.outcome_index import by_selection, mean_cpu, mean_of, means, part, quotient
from lbdns_tools.lab.report.report_page import ReportCell, ReportPicture, ReportSection, SectionTable
from lbdns_tools.lab.report.round_robin_comparison import saturated

#: The parts of the study
DISTANCES, STEADY, CROWD = "distances", "steady", "crowd"
FIGURES: Final = {
    "successful /s": "requests_per_s", "mean ms": "mean_ms", "p50 ms": "p50_ms", "p95 ms": "p95_ms",
    "p99 ms": "p99_ms", "errors %": "error_percent", "look-up ms": "dns_mean_ms",
}  # fmt: skip
RATIOS: Final = ("successful / round robin's", "p95 / round robin's")
HEADINGS: Final = {
    "connection": "Distances, with a choice for each connection",
    "webstone": "Distances, at WebStone's intervals",
    STEADY: "Reports that are rare, late or lost: a steady rate",
    CROWD: "Reports that are rare, late or lost: a crowd",
}
DISTANCE_WORDS: Final = (
    "Each direction takes half of a round trip, and loses the given share of its packets: those of clients, of the DNS "
    "server, and the agents' reports. A request waits for two round trips (connection and response), and a look-up for "
    "another one, which is not part of the response time. Clients repeat a lost query after 2 s, and the kernel "
    "repeats a lost SYN after 1 s."
)
REPORT_WORDS: Final = (
    "All packets have a round trip of 20 ms. The conditions apply to reports only. Round robin does not use reports, "
    "so its row was measured once, and its bars repeat that result."
)


def sections(outcomes: Sequence[MeasuredOutcome], hosts: Sequence[str]) -> list[ReportSection]:
    far = part(outcomes, DISTANCES)
    found = []
    for resolve in ("connection", "webstone"):
        of = [outcome for outcome in far if outcome.case.resolve == resolve]
        if of:
            found.append(_distances(resolve, of, hosts))
    return found + [_reports(name, part(outcomes, name), hosts) for name in (STEADY, CROWD) if part(outcomes, name)]


def _distances(resolve: str, outcomes: Sequence[MeasuredOutcome], hosts: Sequence[str]) -> ReportSection:
    by_point = _grouped(outcomes, "round_trip_ms", "loss_percent")
    rows: list[list[ReportCell]] = []
    for point, of in by_point.items():
        rows += [[*point, *row] for row in _rows(of, _of(of, "round_robin"), hosts)]
    columns = ("round trip ms", "lost %", *_columns())
    named = {f"{round_trip:g} ms\n{loss:g} % lost": of for (round_trip, loss), of in by_point.items()}
    pictures = [
        _picture(f"far-{resolve}-throughput", "Throughput by distance", named, "requests_per_s", "requests/s"),
        _picture(f"far-{resolve}-p95", "95th percentile of the response time by distance", named, "p95_ms",
                 "response time, ms", log=True),
    ]  # fmt: skip
    table = SectionTable("CPU use as a percentage of one core", columns, rows)
    return ReportSection(HEADINGS[resolve], [DISTANCE_WORDS, *saturated(outcomes)], [table], pictures)


def _reports(name: str, outcomes: Sequence[MeasuredOutcome], hosts: Sequence[str]) -> ReportSection:
    by_point = _grouped(outcomes, "report_interval_s", "report_delay_s", "report_loss_percent")
    rotation = _of(outcomes, "round_robin")
    rows: list[list[ReportCell]] = []
    for point, of in by_point.items():
        rows += [[*point, *row] for row in _rows(of, rotation, hosts)]
    columns = ("report interval s", "delay s", "lost %", *_columns())
    named = {_words(*point): [*rotation, *of] for point, of in by_point.items()}
    pictures = [
        _picture(f"far-reports-{name}", "Response times by what happens to reports (95th percentile)", named, "p95_ms",
                 "response time, ms", log=True)
    ]  # fmt: skip
    table = SectionTable("CPU use as a percentage of one core", columns, rows)
    return ReportSection(HEADINGS[name], [REPORT_WORDS, *saturated(outcomes)], [table], pictures)


def _words(interval: float, delay: float, loss: float) -> str:
    first = f"every {interval:g} s"
    if loss:
        return f"{first}\n{loss:.0f} % lost"
    return f"{first}\n{delay:.2g} s late" if delay >= interval else first


def _columns() -> tuple[str, ...]:
    return ("", *FIGURES, *RATIOS, "CPU of the hosts")


def _rows(
    outcomes: Sequence[MeasuredOutcome], rotation: Sequence[MeasuredOutcome], hosts: Sequence[str]
) -> list[list[ReportCell]]:
    """Return the selection, the figures, the ratios to ``rotation`` and the CPU use of each selection."""
    return [
        [
            selection,
            *means(of, *FIGURES.values()),
            *(quotient(mean_of(of, name), mean_of(rotation, name)) for name in ("requests_per_s", "p95_ms")),
            mean_cpu(of, hosts),
        ]
        for selection, of in by_selection(outcomes).items()
    ]


def _picture(
    name: str, caption: str, groups: dict[str, list[MeasuredOutcome]], figure: str, y: str, *, log: bool = False
) -> ReportPicture:
    values = {
        label: {selection: mean_of(each, figure) for selection, each in by_selection(of).items()}
        for label, of in groups.items()
    }
    return ReportPicture(name, caption, partial(report_charts.bars, groups=values, y=y, log=log))


def _grouped(outcomes: Sequence[MeasuredOutcome], *columns: str) -> dict[tuple[float, ...], list[MeasuredOutcome]]:
    """Return the outcomes by their values in ``columns``, in ascending order."""
    found: dict[tuple[float, ...], list[MeasuredOutcome]] = {}
    for outcome in outcomes:
        key = tuple(float(outcome.case.more[column]) for column in columns)
        found.setdefault(key, []).append(outcome)
    return dict(sorted(found.items()))


def _of(outcomes: Sequence[MeasuredOutcome], selection: str) -> list[MeasuredOutcome]:
    return [outcome for outcome in outcomes if outcome.case.selection == selection]
