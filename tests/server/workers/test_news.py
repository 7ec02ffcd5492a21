"""News of members: what a worker knows after them is what the main process knows, with as few new objects as there
is news."""

from __future__ import annotations

from lbdns.server.workers.news import read_news, write_news
from lbdns.snapshot import EMPTY, Reading, Snapshot

OLD = Reading(1.0, 1.0, 50, {"cpu_idle": 50.0})


def told(before: Snapshot, after: Snapshot, knows: Snapshot = EMPTY) -> Snapshot:
    """What a worker knows that knew ``knows``, which is ``before``."""
    return read_news(knows.readings, write_news(before.readings, after))


def test_everything_to_who_knows_nothing() -> None:
    snapshot = Snapshot(7, {"a.hobbit": OLD, "b.hobbit": Reading(2.0, 0.5, 3, alarm="full", gone=True)})
    assert told(EMPTY, snapshot) == snapshot


def test_what_did_not_change_stays_the_same_object() -> None:
    first = Snapshot(1, {"a.hobbit": OLD, "b.hobbit": OLD})
    there = told(EMPTY, first)
    second = Snapshot(2, {"a.hobbit": OLD, "b.hobbit": Reading(2.0, 1.0, 60, {"cpu_idle": 60.0})})
    then = told(first, second, there)
    assert then == second
    assert then.readings["a.hobbit"] is there.readings["a.hobbit"]
    assert len(write_news(first.readings, second)) < len(write_news({}, second))


def test_who_is_gone_is_gone() -> None:
    first = Snapshot(1, {"a.hobbit": OLD, "b.hobbit": OLD})
    second = Snapshot(2, {"b.hobbit": OLD})
    assert told(first, second, told(EMPTY, first)) == second


def test_metrics_of_before_stay_the_same_object_and_equal_ones_of_a_new_report_do_not() -> None:
    first = Snapshot(1, {"a.hobbit": OLD, "b.hobbit": OLD})
    there = told(EMPTY, first)
    alarm = Reading(2.0, 1.0, 50, OLD.metrics, alarm="full")
    alike = Reading(2.0, 1.0, 50, dict(OLD.metrics))
    then = told(first, Snapshot(2, {"a.hobbit": alarm, "b.hobbit": alike}), there)
    assert then.readings["a.hobbit"].alarm == "full"
    assert then.readings["a.hobbit"].metrics is there.readings["a.hobbit"].metrics
    assert then.readings["b.hobbit"].metrics is not there.readings["b.hobbit"].metrics
