"""Tests of snapshot deltas: the receiver builds an identical snapshot, and creates new objects only for changes."""

from __future__ import annotations

from dataclasses import replace

from lbdns.model.snapshot import EMPTY_SNAPSHOT, FailedCheck, Reading, Snapshot
from lbdns.server.workers.snapshot_delta import read_snapshot_delta, write_snapshot_delta

OLD = Reading(1.0, 1.0, 50, {"cpu_idle": 50.0})


def received(before: Snapshot, after: Snapshot, knows: Snapshot = EMPTY_SNAPSHOT) -> Snapshot:
    """Return the snapshot of a worker that had ``knows`` (a copy of ``before``) and received the delta to ``after``."""
    return read_snapshot_delta(knows.readings, write_snapshot_delta(before.readings, after))


def test_everything_to_who_knows_nothing() -> None:
    snapshot = Snapshot(7, {"a.hobbit": OLD, "b.hobbit": Reading(2.0, 0.5, 3, alarm="full", gone=True)})
    assert received(EMPTY_SNAPSHOT, snapshot) == snapshot


def test_what_did_not_change_stays_the_same_object() -> None:
    first = Snapshot(1, {"a.hobbit": OLD, "b.hobbit": OLD})
    there = received(EMPTY_SNAPSHOT, first)
    second = Snapshot(2, {"a.hobbit": OLD, "b.hobbit": Reading(2.0, 1.0, 60, {"cpu_idle": 60.0})})
    then = received(first, second, there)
    assert then == second
    assert then.readings["a.hobbit"] is there.readings["a.hobbit"]
    assert len(write_snapshot_delta(first.readings, second)) < len(write_snapshot_delta({}, second))


def test_a_failed_check_leaves_the_metrics_the_same_object() -> None:
    first = Snapshot(1, {"a.hobbit": OLD})
    there = received(EMPTY_SNAPSHOT, first)
    failed = replace(OLD, failed_checks=(FailedCheck("web", "icmp: no answer within 0.3 s"),))
    then = received(first, Snapshot(2, {"a.hobbit": failed}), there)
    assert then.readings["a.hobbit"] == failed
    assert then.readings["a.hobbit"].metrics is there.readings["a.hobbit"].metrics


def test_who_is_gone_is_gone() -> None:
    first = Snapshot(1, {"a.hobbit": OLD, "b.hobbit": OLD})
    second = Snapshot(2, {"b.hobbit": OLD})
    assert received(first, second, received(EMPTY_SNAPSHOT, first)) == second


def test_metrics_of_before_stay_the_same_object_and_equal_ones_of_a_new_report_do_not() -> None:
    first = Snapshot(1, {"a.hobbit": OLD, "b.hobbit": OLD})
    there = received(EMPTY_SNAPSHOT, first)
    alarm = Reading(2.0, 1.0, 50, OLD.metrics, alarm="full")
    alike = Reading(2.0, 1.0, 50, dict(OLD.metrics))
    then = received(first, Snapshot(2, {"a.hobbit": alarm, "b.hobbit": alike}), there)
    assert then.readings["a.hobbit"].alarm == "full"
    assert then.readings["a.hobbit"].metrics is there.readings["a.hobbit"].metrics
    assert then.readings["b.hobbit"].metrics is not there.readings["b.hobbit"].metrics
