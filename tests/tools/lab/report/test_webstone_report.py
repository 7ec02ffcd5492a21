"""Tests of the ``webstone`` study's report, with synthetic outcomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.loads.farm_load import UNEQUAL
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.presets.webstone_study import EQUAL
from lbdns_tools.lab.report import report_charts
from lbdns_tools.lab.report.report_charts import Series
from lbdns_tools.lab.report.report_page import ReportSection, write_report
from lbdns_tools.lab.report.webstone_report import sections
from tests.tools.lab.presets.fake_lab import made

FARMS = {"unequal": LabFarm(UNEQUAL), "equal": LabFarm(EQUAL)}
CPU = {"dns": 2.0, "bilbo-agent": 0.4, "frodo-agent": 0.6}


def study() -> list[MeasuredOutcome]:
    """Return synthetic outcomes on unequal hosts (html and cgi, 20 and 60 clients, all selection methods)."""
    outcomes = []
    for workload in ("html", "cgi"):
        for clients in (20, 60):
            for resolve, best in (("connection", 250.0), ("webstone", 104.0)):
                outcomes += [
                    made("round_robin", workload, resolve, clients, cpu=CPU, shares={"gandalf": 0.33}),
                    made(
                        "best", workload, resolve, clients, throughput=best, p95=0.05, cpu=CPU, shares={"gandalf": 0.7}
                    ),
                    made("best_score", workload, resolve, clients, throughput=90.0, p95=0.3, shares={"gandalf": 0.95}),
                ]
            outcomes.append(made("single", workload, "", clients, throughput=12.5, host="frodo"))
        outcomes += [made("alone", workload, "", 20, throughput=40.0, host=host) for host in ("bilbo", "gandalf")]
    outcomes += [made(selection, "html", "connection", 20, "equal") for selection in ("round_robin", "best")]
    return outcomes


def by_heading(outcomes: list[MeasuredOutcome]) -> dict[str, ReportSection]:
    found = sections(outcomes, FARMS)
    assert len({section.heading for section in found}) == len(found)
    return {section.heading: section for section in found}


def test_every_part_is_there() -> None:
    assert list(by_heading(study())) == [
        "Requirements",
        "Unequal hosts, lookups per connection: 'best' versus 'round_robin'",
        "Unequal hosts, lookups at WebStone's intervals: 'best' versus 'round_robin'",
        "Equal hosts, lookups per connection: 'best' versus 'round_robin'",
        "The highest score until the next report",
        "Beside 1999",
        "Tables: a single server",
        "Tables: lookups per connection",
        "Tables: lookups at WebStone's intervals",
        "The CPU cost of lbdns and its agents",
    ]


def test_demands_are_judged() -> None:
    section = by_heading(study())["Requirements"]
    assert section.words[0] == "Verdicts on 11 requirements: met: 9; within chance: 0; not met: 0; not measured: 2."
    (table,) = section.tables
    rows = {str(row[0]): row[1:] for row in table.rows}
    assert rows["highest mean CPU use of any agent in any run, as a percentage of one core"] == (
        "at most 1",
        0.6,
        16,
        None,
        "met",
    )
    of_alone = rows[
        "unequal hosts, lookups at WebStone's intervals: throughput of 'best' / sum of single hosts, minimum"
    ]
    assert of_alone == ("at least 0.95", pytest.approx(104 / 92.5), 4, None, "met")


def test_each_point_and_all_of_them() -> None:
    section = by_heading(study())["Unequal hosts, lookups per connection: 'best' versus 'round_robin'"]
    over_all, points = section.tables
    assert over_all.caption == "Ratios of 'best' to 'round_robin' over 4 points"
    assert [row[0] for row in over_all.rows] == ["mean", "least", "most"]
    assert list(over_all.rows[1]) == ["least", 2.5, 0.5, 1.0, None, None]
    first = dict(zip(points.columns, points.rows[0], strict=True))
    assert first["1999"] == pytest.approx(164.60 / 151.27)
    assert (first["workload"], first["clients"], first["ratio"]) == ("html", 20, 2.5)
    assert first["ratio to the sum of the single hosts"] == pytest.approx(250 / 92.5)
    assert first["its error"] is None, "measured once"


def test_pictures_show_every_repetition(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: list[Series] = []
    monkeypatch.setattr(report_charts, "beside_1999", lambda path, now, **more: drawn.append(now))
    measured = ((1, 90.0), (2, 108.0), (3, None))
    outcomes = [made("best", throughput=throughput, repetition=number) for number, throughput in measured]
    by_heading(outcomes)["Beside 1999"].pictures[0].draw(tmp_path / "any.svg")
    assert drawn == [{"best": [(20.0, 90.0), (20.0, 108.0)]}]


def test_repetitions_tell_the_error() -> None:
    outcomes = [
        made(selection, "html", "webstone", clients, repetition=number, throughput=throughput)
        for clients in range(20, 101, 10)
        for number, (rotation, best) in enumerate(((100.0, 90.0), (100.0, 108.0)), 1)
        for selection, throughput in (("round_robin", rotation), ("best", best))
    ]
    found = by_heading(outcomes)
    over_all, points = found["Unequal hosts, lookups at WebStone's intervals: 'best' versus 'round_robin'"].tables
    scatter = 0.09 * 2**0.5 / 0.99  # of one ratio, as a part of it
    assert dict(zip(points.columns, points.rows[0], strict=True))["its error"] == pytest.approx(0.99 * scatter / 2**0.5)
    assert over_all.rows[-1][:2] == ("error of the mean", pytest.approx(0.99 * scatter / 18**0.5))
    assert over_all.rows[-1][2:] == (0.0, 0.0, None, None)
    words, rows = found["Requirements"].words, {str(row[0]): row[1:] for row in found["Requirements"].tables[0].rows}
    least = rows["unequal hosts, lookups at WebStone's intervals: throughput of 'best' / 'round_robin', minimum"]
    assert least[1] == pytest.approx(0.99)
    assert str(least[3]).startswith("0.8")
    assert (least[2], least[4]) == (9, "met")
    assert len(words) == 3


def test_the_highest_score_beside_best() -> None:
    (table,) = by_heading(study())["The highest score until the next report"].tables
    assert "gandalf has 69% of the farm's CPU capacity" in table.caption
    assert list(table.rows[0]) == [
        "per connection", "html", 20, 0.36, 0.9, pytest.approx(6.0), pytest.approx(3.0), 0.95, 0.7, "herds",
    ]  # fmt: skip


def test_ratios_beside_those_of_1999() -> None:
    section = by_heading(study())["Beside 1999"]
    (table,) = section.tables
    assert [row[:2] for row in table.rows] == [["html", 20], ["html", 60], ["cgi", 20], ["cgi", 60]]
    assert list(table.rows[0][2:]) == [
        pytest.approx(151.27 / 21.63),
        8.0,
        8.0,
        pytest.approx(164.60 / 151.27),
        2.5,
        1.04,
    ]
    names = [picture.name for picture in section.pictures]
    assert len(names) == len(set(names)) == 8
    assert names[0] == "html-connections_per_s-connection"


def test_tables_are_those_of_1999() -> None:
    found = by_heading(study())
    single, connection = (found[f"Tables: {what}"].tables for what in ("a single server", "lookups per connection"))
    assert [table.caption for table in single] == ["single, html (Table 2 of 1999)", "single, cgi (Table 3 of 1999)"]
    assert [table.caption.split(" (")[0] for table in connection] == [
        "round_robin, html", "round_robin, cgi", "best, html", "best, cgi",
    ]  # fmt: skip
    row = dict(zip(single[0].columns[:3], single[0].rows[0][:3], strict=True))
    assert row == {"clients": 20, "connections/s: 1999": 21.63, "now": 12.5}


def test_own_cost_of_every_run() -> None:
    (table,) = by_heading(study())["The CPU cost of lbdns and its agents"].tables
    assert len(table.rows) == 16
    assert list(table.rows[0]) == ["unequal", "round_robin", "html", "per connection", 20, 2.0, 0.5, 0.6]


def test_a_farm_of_ones_own_has_no_demands_but_the_agents() -> None:
    outcomes = [made(selection, farm="own", cpu=CPU) for selection in ("round_robin", "best")]
    first, ratios, *_ = sections(outcomes, {"own": LabFarm(UNEQUAL)})
    assert [row[0] for row in first.tables[0].rows] == [
        "highest mean CPU use of any agent in any run, as a percentage of one core"
    ]
    assert ratios.heading == "Own hosts, lookups per connection: 'best' versus 'round_robin'"
    assert ratios.tables[1].rows[0][5] is None  # 1999 had other hosts


def test_a_study_of_which_nothing_was_measured_still_has_a_report() -> None:
    (only,) = sections([], FARMS)
    assert only.heading == "Requirements"


def test_the_page_with_its_pictures(tmp_path: Path) -> None:
    page = write_report(tmp_path, "WebStone", sections(study()[:7], FARMS), {"study": "webstone"})
    text = page.read_text()
    assert "Table 2 of 1999" in text
    assert "could not be drawn" not in text
    assert (tmp_path / "pictures" / "html-mean_latency_s-connection.svg").read_text().startswith("<?xml")
