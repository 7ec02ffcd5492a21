"""Checks that the dashboard and the alert rules are complete and agree with the manual."""

from __future__ import annotations

import re
from collections import Counter

from tests.monitoring.metrics_page import ROOT, documented
from tests.monitoring.monitoring_files import ALERTS, CASES, DASHBOARD, alerts, dashboard, expressions, names_of, panels

#: Panel types built into Grafana: the dashboard must need no plugins
TYPES = {"timeseries", "stat", "state-timeline", "heatmap", "table"}
UNITS = {"short", "reqps", "cps", "s", "percentunit", "bytes"}
COLUMNS = 24


def test_every_panel_has_a_description() -> None:
    for panel in panels():
        assert panel["type"] in TYPES, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert len(panel["description"]) > 10, panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert [target["refId"] for target in panel["targets"]] == list("ABCD"[: len(panel["targets"])])
        assert len({target["legendFormat"] for target in panel["targets"]}) == len(panel["targets"])
    titles = Counter(panel["title"] for panel in panels())
    assert max(titles.values()) == 1
    assert len(titles) > 30


def test_data_source_instance_and_pool_can_be_chosen() -> None:
    board = dashboard()
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert list(variables) == ["datasource", "instance", "pool"]
    assert variables["datasource"]["type"] == "datasource"
    for panel in panels():
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            assert "$instance" in target["expr"], panel["title"]
            if re.search(r"lbdns_(pool|member|answers|shadow)_(?!series)", target["expr"]):
                assert "$pool" in target["expr"], panel["title"]
    assert (board["id"], board["uid"]) == (None, "lbdns"), (
        "the dashboard must have no id and a fixed uid, so that it can be imported repeatedly"
    )


def test_panels_fill_the_grid_without_overlap() -> None:
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= COLUMNS
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len(taken) == COLUMNS * (1 + max(y for _, y in taken)), "the grid has gaps"


def test_every_alert_has_annotations_a_test_case_and_a_row_in_the_manual() -> None:
    rules = ALERTS.read_text().split("- alert: ")[1:]
    manual = (ROOT / "docs" / "reference" / "prometheus.md").read_text()
    cases = CASES.read_text()
    assert len(rules) == len(set(alerts())) == 20
    for name, rule in zip(alerts(), rules, strict=True):
        assert re.search(r"labels: \{severity: (critical|warning)\}", rule), name
        assert re.search(r'summary: "', rule), name
        assert re.search(r'description: "', rule), name
        assert f"| `{name}` |" in manual
        assert f'{{alertname="{name}"}}' in cases, name
    assert re.findall(r"^\| `(Lbdns\w+)` \|", manual, re.MULTILINE) == alerts()


def test_metrics_in_use_are_documented() -> None:
    used = names_of(ALERTS.read_text()) | {name for _, text in expressions() for name in names_of(text)}
    assert len(used) > 40
    assert [name for name in used if name.startswith("lbdns_") and not documented(name)] == []


def test_documented_metrics_are_on_the_dashboard() -> None:
    """All documented metrics are on the dashboard, except those that repeat others, or that few servers have."""
    manual = (ROOT / "docs" / "reference" / "prometheus.md").read_text()
    rows = set(re.findall(r"^\| `(lbdns_\w+)` \|", manual, re.MULTILINE))
    shown = DASHBOARD.read_text()
    rare = {name for name in rows if name.startswith(("lbdns_dns_forward_", "lbdns_shared_"))}
    redundant = {"lbdns_shadow_answers_total"}
    assert sorted(name for name in rows - rare - redundant if name not in shown) == []
