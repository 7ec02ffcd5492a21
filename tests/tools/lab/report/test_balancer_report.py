"""Tests of the ``balancers`` study's report, with synthetic outcomes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import UNEQUAL, front_group
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report.balancer_report import KB, STUDY_AB, sections
from lbdns_tools.lab.report.outcome_index import ms_per_request
from lbdns_tools.lab.report.report_page import ReportSection, write_report
from tests.tools.lab.presets.fake_lab import about, made


def study() -> list[MeasuredOutcome]:
    outcomes = []
    for selection in ("direct", "round_robin", "best", "haproxy"):
        cpu = {"dns": 5.0, "haproxy": 20.0 if selection == "haproxy" else 0.0, "bilbo-agent": 0.5}
        best = selection == "best"
        outcomes += [
            made(selection, throughput=200.0 if best else 100.0, p95=0.05 if best else 0.2, cpu=cpu, part="web"),
            *(made(selection, "1k", clients=count, throughput=10.0 * count, part="sweep") for count in (1, 101)),
            made(selection, "1k", clients=300, part="ab"),
            *(
                made(selection, "sleep", clients=None, rate=rate, throughput=rate, cpu=cpu, part="rate")
                for rate in (10.0, 20.0)
                if selection != "direct"
            ),
        ]
    return outcomes


def by_heading(outcomes: list[MeasuredOutcome]) -> dict[str, ReportSection]:
    return {section.heading: section for section in sections(outcomes, LabFarm(UNEQUAL), ["pound"])}


def test_every_part_is_there() -> None:
    assert list(by_heading(study())) == [
        "The same hosts behind DNS and behind proxies", "Concurrency sweep", "The table of ab", "Rate sweep",
        "The figures of httperf",
    ]  # fmt: skip
    assert by_heading([]) == {}


def test_who_chooses() -> None:
    names = ("direct", "alone", "best", "round_robin", "haproxy_least", "nginx")
    assert [front_group(name) for name in names] == [None, None, "dns", "dns", "haproxy", "nginx"]


def test_what_a_choice_costs() -> None:
    outcome = made("haproxy", throughput=400.0, cpu={"haproxy": 20.0})
    assert ms_per_request([outcome], "haproxy") == about(0.5)  # 0.2 s in each second for 400 requests
    assert ms_per_request([outcome], "dns") is None
    assert ms_per_request([made(throughput=0.0, cpu={"dns": 1.0})], "dns") is None


def test_proxies_beside_best() -> None:
    section = by_heading(study())["The same hosts behind DNS and behind proxies"]
    (table,) = section.tables
    rows = {row[1]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert list(rows) == ["direct", "round_robin", "best", "haproxy"]
    proxy = rows["haproxy"]
    assert (proxy["/ best"], proxy["p95 / best"]) == (0.5, about(4.0))
    assert (proxy["CPU use of balancer or lbdns, % of one core"], proxy["its CPU ms/request"]) == (20.0, about(2.0))
    assert (rows["best"]["CPU use of balancer or lbdns, % of one core"], rows["direct"]["its CPU ms/request"]) == (
        5.0,
        None,
    )
    assert section.words[-1] == "pound was omitted, because the program is not installed or not part of the farm."


def test_workloads_are_drawn_in_parts_of_their_most() -> None:
    others = [made("best", "cgi", throughput=3.0, part="web"), made("direct", "cgi", throughput=None, part="web")]
    (picture,) = by_heading([*study(), *others])["The same hosts behind DNS and behind proxies"].pictures
    assert isinstance(picture.draw, partial)
    assert picture.draw.keywords["groups"] == {
        "html": {"direct": 0.5, "round_robin": 0.5, "best": 1.0, "haproxy": 0.5},
        "cgi": {"direct": None, "round_robin": None, "best": 1.0, "haproxy": None},
    }


def test_the_sweep_has_a_table_for_each_figure() -> None:
    section = by_heading(study())["Concurrency sweep"]
    assert [table.caption for table in section.tables] == [
        "requests/s", "mean latency, ms", "p95, ms", "mean DNS lookup time, ms", "longest, ms", "errors, %",
    ]  # fmt: skip
    first = section.tables[0]
    assert list(first.columns) == ["concurrent", "direct", "round_robin", "best", "haproxy"]
    assert [tuple(row) for row in first.rows] == [(1, *[10.0] * 4), (101, *[1010.0] * 4)]


def test_the_table_of_ab_beside_the_studys() -> None:
    (table,) = by_heading(study())["The table of ab"].tables
    rows = {row[0]: row for row in table.rows}
    assert list(rows["haproxy"][8:]) == ["HAProxy", 0, 20.481, 122.887, 91, 1366, 941.7]
    assert STUDY_AB == {
        "direct": ("Apache alone", 0, 27.884, 167.305, 38, 27869, 691.69),
        "nginx": ("nginx", 0, 57.905, 347.432, 89, 57885, 332.24),
        "haproxy": ("HAProxy", 0, 20.481, 122.887, 91, 1366, 941.7),
        "pound": ("Pound", 12, 55.778, 334.671, 111, 55761, 345.7),
    }
    assert list(rows["best"][8:]) == ["", *[None] * 6]
    assert rows["best"][1:5] == (50, 0, 10.0, about(50.0))
    assert about(1.0) == 8.192 / 1000 * KB  # 8.192 kbit/s are 1024 bytes a second


def test_rates_with_the_cost_of_the_choice() -> None:
    section = by_heading(study())["Rate sweep"]
    (table,) = section.tables
    rows = [tuple(row) for row in table.rows if row[0] == "haproxy"]
    assert [row[:3] for row in rows] == [("haproxy", 10.0, 10.0), ("haproxy", 20.0, 20.0)]
    assert [row[6:] for row in rows] == [(20.0, about(20.0)), (20.0, about(10.0))]


def test_the_page_with_its_pictures(tmp_path: Path) -> None:
    parts = sections(study(), LabFarm(UNEQUAL), [])
    text = write_report(tmp_path, "Balancers", parts, {"study": "balancers"}).read_text()
    assert "could not be drawn" not in text
    assert {path.stem for path in (tmp_path / "pictures").iterdir()} == {
        "web-throughput", "sweep-requests_per_s", "sweep-mean_s", "sweep-p95_s", "rate-cpu", "rate-p95",
    }  # fmt: skip
