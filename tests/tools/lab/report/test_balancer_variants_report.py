"""The sections of the report on variants of the balancers' settings, with synthetic outcomes."""

from __future__ import annotations

from dataclasses import replace

from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report.balancer_variants_report import variant_sections
from lbdns_tools.lab.report.report_page import ReportCell, ReportSection
from tests.tools.lab.presets.fake_lab import about, made


def by_heading(*outcomes: MeasuredOutcome) -> dict[str, ReportSection]:
    found = variant_sections(outcomes)
    return {section.heading: section for section in found if section.tables[0].rows}


def rows(section: ReportSection) -> list[dict[str, ReportCell]]:
    (table,) = section.tables
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_each_part_has_a_section() -> None:
    outcomes = [made("haproxy_max6", part="limit"), made("nginx", part="kept"), made("best", part="https")]
    assert list(by_heading(*outcomes)) == [
        "Connection limits per host", "nginx with kept connections to the hosts", "The sweep over HTTPS",
        "The figures of httperf",
    ]  # fmt: skip
    assert by_heading() == {}


def test_a_row_for_each_number_of_clients_and_selection() -> None:
    cpu = {"haproxy": 20.0, "dns": 0.0}
    outcomes = [
        made("direct", clients=60, part="https"),
        made("haproxy_tcp", clients=60, part="https", throughput=400.0, cpu=cpu),
        made("haproxy_tcp", clients=20, part="https", throughput=200.0, cpu=cpu),
        made("haproxy_tcp", clients=20, part="https", throughput=400.0, cpu=cpu, repetition=2),
    ]
    found = rows(by_heading(*outcomes)["The sweep over HTTPS"])
    assert [(row["concurrent"], row["selection"], row["requests/s"]) for row in found] == [
        (20, "haproxy_tcp", 300.0), (60, "direct", 100.0), (60, "haproxy_tcp", 400.0),
    ]  # fmt: skip
    assert [row["its CPU ms/request"] for row in found] == [about(0.2 / 0.3), None, about(0.5)]


def test_the_figures_of_httperf() -> None:
    outcome = made("best", "sleep", clients=None, rate=50.0, part="rate")
    figures = replace(
        outcome.row.figures, min_s=0.2, response_mean_s=0.21, transfer_mean_s=0.001, rate_deviation_per_s=3.0,
        statuses={"2xx": 90, "3xx": 1, "4xx": 2, "5xx": 3}, errors={**outcome.row.figures.errors, "refused": 4},
        local={**outcome.row.figures.local, "descriptor": 5, "port": 6},
    )  # fmt: skip
    outcome = replace(outcome, row=replace(outcome.row, figures=figures))
    carried = made("best", "sleep", part="carried")
    (row,) = rows(by_heading(outcome, carried)["The figures of httperf"])
    assert (row["part"], row["selection"], row["clients"], row["rate, requests/s"]) == (
        "rate, sleep",
        "best",
        None,
        50.0,
    )
    assert (row["least, ms"], row["response, ms"], row["transfer, ms"]) == (about(200), about(210), about(1))
    assert row["deviation"] == 3.0
    assert [row[name] for name in ("2xx", "3xx", "4xx", "5xx")] == [90, 1, 2, 3]
    assert [row[name] for name in ("refused", "reset", "no descriptor", "no port")] == [4, 0, 5, 6]
