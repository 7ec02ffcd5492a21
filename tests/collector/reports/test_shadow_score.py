"""Tests of the shadow score: it is computed for every report, and sent to pages and followers."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from lbdns.commands.status import print_status
from lbdns.model.checked_configuration import build_shadow_score
from lbdns.model.overrides import NO_OVERRIDES
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.scores.score import Score, Term
from lbdns.scores.thesis import THESIS
from lbdns_collector.reports.report_table import ReportTable
from lbdns_collector.status.status_document import (
    ProgramStatus,
    ReportChanges,
    ShadowStatistics,
    StatusInputs,
    build_status,
    change_signature,
)
from lbdns_collector.status.status_document_reading import read_status
from tests.collector.collector_fixtures import HOSTS, KEY, WALL, datagram, make_farm

NOW = 5000.0  # monotonic seconds
IDLE = Score({"cpu_idle": Term(100.0, 100.0, "high")})
HALF = Score({"cpu_idle": Term(50.0, 100.0, "high")})
METRICS = {"cpu_idle": 40.0, "run_queue": 0.0}


def reported(shadow: Score | None) -> ReportTable:
    table = ReportTable(HOSTS, [KEY], THESIS, shadow)
    assert table.accept(datagram(metrics=METRICS), "192.0.2.1", NOW, WALL) == "accepted"
    return table


def scores(table: ReportTable) -> tuple[int | None, int | None]:
    reading = table.snapshot().readings["gandalf.hobbit"]
    return reading.score, reading.shadow_score


def test_both_are_worked_out() -> None:
    assert scores(reported(IDLE)) == (THESIS.of(METRICS), 40)
    assert scores(reported(None)) == (THESIS.of(METRICS), None)


def test_an_alarm_without_metrics_leaves_both() -> None:
    table = reported(IDLE)
    alarm = datagram(seq=2, kind="alarm", alarm="full", metrics={})
    assert table.accept(alarm, "192.0.2.1", NOW + 1, WALL) == "accepted"
    reading = table.snapshot().readings["gandalf.hobbit"]
    assert (reading.alarm, reading.received, reading.shadow_score) == ("full", NOW + 1, 40)


@pytest.mark.parametrize(("before", "after", "found"), [(None, IDLE, 40), (IDLE, HALF, 20), (IDLE, None, None)])
def test_a_reload_weighs_anew(before: Score | None, after: Score | None, found: int | None) -> None:
    table = reported(before)
    old = table.snapshot()
    table.reconfigure(HOSTS, [KEY], THESIS, after)
    assert scores(table) == (THESIS.of(METRICS), found)
    assert table.snapshot() is not old


def test_a_take_over_recomputes_scores() -> None:
    table = ReportTable(HOSTS, [KEY], THESIS, IDLE)
    table.restore(reported(None).state(NOW), NOW)
    assert scores(table) == (THESIS.of(METRICS), 40)


def test_it_is_named_in_the_configuration(tmp_path: Path) -> None:
    config = make_farm(tmp_path).config
    assert build_shadow_score(config) is None
    config = replace(config, scores={"idle": IDLE.terms}, collector=replace(config.collector, shadow_score="idle"))
    assert build_shadow_score(config) == IDLE
    assert build_shadow_score(replace(config, collector=replace(config.collector, shadow_score="thesis"))) == THESIS


def status_inputs(folder: Path, shadow_score: int | None = None, *shadows: ShadowStatistics) -> StatusInputs:
    readings = {"gandalf.hobbit": Reading(NOW, 1.0, 80, METRICS, shadow_score=shadow_score)}
    server = ProgramStatus("1.2", 60.0, 9, 1)
    return StatusInputs(
        make_farm(folder), Snapshot(1, readings), NOW, NO_OVERRIDES, {}, server, shadows={"web": shadows}
    )


@pytest.mark.parametrize("score", [None, 0, 40])
def test_followers_receive_it(tmp_path: Path, score: int | None) -> None:
    now = status_inputs(tmp_path, score)
    changes = ReportChanges(now.farm).build(["gandalf.hobbit"], now.snapshot.readings, NOW)
    for document in (build_status(now), changes):
        text = json.dumps(document)
        assert ("shadow_score" in text) == (score is not None)
        assert read_status(json.loads(text), NOW)["gandalf.hobbit"] == now.snapshot.readings["gandalf.hobbit"]


@pytest.mark.parametrize("bad", [None, "40", 4.5, True])
def test_an_invalid_score_is_rejected(tmp_path: Path, bad: object) -> None:
    document = json.loads(json.dumps(build_status(status_inputs(tmp_path, 40))))
    next(m for m in document["pools"][0]["members"] if m["name"] == "gandalf")["shadow_score"] = bad
    with pytest.raises(ValueError, match="shadow_score must be of type int"):
        read_status(document, NOW)


TRIED = ShadowStatistics("best", "best_score", "idle", (30, 10, 0), 25)
IDLE_SO_FAR = ShadowStatistics("weighted", "best_score", "", (0, 0, 0), 0)


def test_the_status_shows_shadow_answers(tmp_path: Path) -> None:
    (pool,) = build_status(status_inputs(tmp_path, 40, TRIED, IDLE_SO_FAR))["pools"]
    names = [member["name"] for member in pool["members"]]
    one, other = pool["shadow"]
    assert one == {
        "policy": "best",
        "shadow": "best_score",
        "score": "idle",
        "answers": dict(zip(names, (30, 10, 0), strict=True)),
        "share": dict(zip(names, (0.75, 0.25, 0.0), strict=True)),
        "diverted": 25,
        "diverted_share": 0.625,
    }
    assert (other["score"], set(other["share"].values()), other["diverted_share"]) == (None, {0.0}, 0.0)


def test_it_is_empty_without_any(tmp_path: Path) -> None:
    assert build_status(status_inputs(tmp_path))["pools"][0]["shadow"] == []


def test_pages_are_updated_when_it_changes(tmp_path: Path) -> None:
    first, _ = change_signature(status_inputs(tmp_path, None, TRIED))
    then, _ = change_signature(status_inputs(tmp_path, None, replace(TRIED, diverted=26)))
    assert first != then


def test_lbdns_status_has_a_line_for_each(tmp_path: Path) -> None:
    out = io.StringIO()
    print_status(build_status(status_inputs(tmp_path, 40, TRIED, IDLE_SO_FAR)), Console(file=out, width=100))
    assert (
        "shadow of best: best_score with score idle would have named another member in 25 of 40 answers (62%)"
        in out.getvalue()
    )
    assert "shadow of weighted: best_score would have named another member in 0 of 0 answers (0%)" in out.getvalue()
