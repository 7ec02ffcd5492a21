"""The report of the study ``trace``, with the day's load, the reactive scaler's load, and table 6.2 of the cloud
study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.load_shapes import DAY_HIGHEST, DAY_LOWEST, DAY_REQUESTS, SCALER_RUNS, scaler_highest
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report.outcome_index import by_selection, mean_cpu, mean_of, means, part, quotient, scaled
from lbdns_tools.lab.report.report_charts import course
from lbdns_tools.lab.report.report_page import ReportSection, SectionTable
from lbdns_tools.lab.report.round_robin_comparison import beside_round_robin, saturated

WINDOW_S: Final = 3
#: Table 6.2 of the cloud study: auto scaling, its optimal policy, always 20 servers
STUDY_COLUMNS: Final = ("", "auto scale", "optimal", "always 20")
STUDY: Final[tuple[tuple[str, float, float, float], ...]] = (
    ("mean response, ms", 144.6, 116.0, 101.8),
    ("99 % response, ms", 409, 321, 254),
    ("mean CPU, %", 44.62, 37.22, 23.84),
    ("requests lost", 343_763, 32_288, 2_148),
)


def sections(outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> list[ReportSection]:
    return [_day(part(outcomes, "day"), farm), _scaler(part(outcomes, "scaler"), farm)]


def _day(outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> ReportSection:
    words = [
        f"The study's day had {DAY_REQUESTS / 1e6:.3g} million requests, {DAY_LOWEST:g} to {DAY_HIGHEST:g} per "
        "second. The curve was not published. The lab uses a synthetic curve: a raised cosine with a minimum at "
        "04:00 and a maximum at 16:00, with an exponent that yields the same number of requests. Time is "
        "compressed, and the rate is scaled. The peak rate is 0.9 times the rate that this farm sustains with "
        "'best'.",
        *beside_round_robin(outcomes),
        *saturated(outcomes),
        "The study varied the number of servers, but the lab does not. The results of the study are therefore "
        "comparable only in their order of magnitude.",
    ]
    tables = [totals(outcomes, farm), study_table(outcomes, farm)]
    return ReportSection(
        "A day", words, tables, course("day", "The day over time", outcomes, farm.host_names, window_s=WINDOW_S)
    )


def _scaler(outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> ReportSection:
    runs = ", ".join(f"{count} connections at {rate}/s, starting at {begin} s" for begin, count, rate in SCALER_RUNS)
    words = [
        f"In the study, overlapping runs of httperf ({runs}) generated up to {scaler_highest():g} connections/s over "
        "20 minutes. In the lab, time is compressed, and the rates are scaled. The peak rate is 0.9 times the rate "
        "that the farm sustains with 'best'.",
        *beside_round_robin(outcomes),
        *saturated(outcomes),
    ]
    pictures = course("scaler", "The overlapping runs over time", outcomes, farm.host_names, window_s=WINDOW_S)
    return ReportSection("The load of the reactive scaler", words, [totals(outcomes, farm)], pictures)


def totals(outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> SectionTable:
    """Return a table of each selection's results, averaged over all repetitions."""
    figures = ("requests", "mean_ms", "p99_ms", "failed", "error_percent")
    rows = [[selection, *means(of, *figures), cpu_share(of, farm)] for selection, of in by_selection(outcomes).items()]
    columns = ("", "requests", "mean ms", "p99 ms", "lost", "lost %", "mean CPU %")
    return SectionTable(
        "Results for the whole load; CPU use as a percentage of all hosts' cores", columns, rows, digits=4
    )


def cpu_share(outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> float | None:
    """Return the hosts' total CPU use as a percentage of the sum of their CPU limits."""
    return quotient(mean_cpu(outcomes, farm.host_names), farm.cpu)


def study_table(outcomes: Sequence[MeasuredOutcome], farm: LabFarm) -> SectionTable:
    """Return table 6.2 with an additional column per selection. The lab's share of lost requests is multiplied by the
    number of requests in the study's day."""
    measured = by_selection(outcomes)
    mine = [
        (*means(of, "mean_ms", "p99_ms"), cpu_share(of, farm), scaled(mean_of(of, "error_percent"), DAY_REQUESTS / 100))
        for of in measured.values()
    ]
    rows = [[*line, *(figures[place] for figures in mine)] for place, line in enumerate(STUDY)]
    caption = (
        "Table 6.2 of the study, with the lab's results (lost requests scaled to a total of "
        f"{DAY_REQUESTS / 1e6:.3g} million requests)"
    )
    return SectionTable(caption, (*STUDY_COLUMNS, *(f"lab, {name}" for name in measured)), rows, digits=5)
