"""Tests of the event log: events are logged, stored, counted and sent to subscribers."""

from __future__ import annotations

import logging
from typing import get_args

import pytest

from lbdns.events import event_log
from lbdns.events.event_log import EVENT_KINDS, EventKind, EventLog, LoggedEvent


def test_one_event_is_one_line_and_one_document(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    found = EventLog(lambda: 1000.5)
    found.record("state", "pool web: 100% silent", level=logging.WARNING, pool="web", member="a", logger="lbdns.server")
    (record,) = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == ("lbdns.server", "WARNING", "pool web: 100% silent")
    (event,) = found.newest()
    assert event is record.event  # type: ignore[attr-defined]
    assert event.document() == {
        "id": 1, "time": 1000.5, "kind": "state", "level": "warning", "text": "pool web: 100% silent", "pool": "web",
        "member": "a",
    }  # fmt: skip


def test_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(10_000))
    found = EventLog(lambda: float(next(now)))
    for number in range(event_log.KEPT + 10):
        found.record("server", str(number))
    assert len(found.newest()) == event_log.KEPT
    last = event_log.KEPT + 9
    assert [event.text for event in found.newest(2)] == [str(last - 1), str(last)]
    assert [event.text for event in found.newest(since=float(last - 1))] == [str(last)]
    assert found.newest(0) == []
    assert found.counts["server", "info"] == event_log.KEPT + 10
    assert found.last["server", "info"].id == event_log.KEPT + 10


def test_subscribers_get_events_until_they_unsubscribe() -> None:
    found, heard, other = EventLog(), list[LoggedEvent](), list[LoggedEvent]()
    end = found.subscribe(heard.append)
    found.subscribe(other.append)
    found.record("key", "one")
    end()
    found.record("key", "two")
    assert [event.text for event in heard] == ["one"]
    assert [event.text for event in other] == ["one", "two"]


def test_unsubscribing_during_an_event_keeps_it_from_no_other_subscriber() -> None:
    found, heard = EventLog(), list[str]()
    ends = [found.subscribe(lambda event: ends[0]()), found.subscribe(lambda event: heard.append(event.text))]
    found.record("server", "one")
    found.record("server", "two")
    assert heard == ["one", "two"]


def test_every_kind_is_listed() -> None:
    assert get_args(EventKind) == EVENT_KINDS
