"""Events: logged, kept, counted, handed on."""

from __future__ import annotations

import logging
from typing import get_args

import pytest

from lbdns import events
from lbdns.events import KINDS, Event, Events, Kind


def test_one_event_is_one_line_and_one_document(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    found = Events(lambda: 1000.5)
    found.tell("state", "pool web: 100% silent", level=logging.WARNING, pool="web", member="a", logger="lbdns.server")
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
    found = Events(lambda: float(next(now)))
    for number in range(events.KEPT + 10):
        found.tell("server", str(number))
    assert len(found.newest()) == events.KEPT
    last = events.KEPT + 9
    assert [event.text for event in found.newest(2)] == [str(last - 1), str(last)]
    assert [event.text for event in found.newest(since=float(last - 1))] == [str(last)]
    assert found.newest(0) == []
    assert found.counts["server", "info"] == events.KEPT + 10
    assert found.last["server", "info"].id == events.KEPT + 10


def test_who_listens_hears_until_it_ends() -> None:
    found, heard, other = Events(), list[Event](), list[Event]()
    end = found.subscribe(heard.append)
    found.subscribe(other.append)
    found.tell("key", "one")
    end()
    found.tell("key", "two")
    assert [event.text for event in heard] == ["one"]
    assert [event.text for event in other] == ["one", "two"]


def test_who_leaves_while_it_is_told_keeps_nobody_from_hearing() -> None:
    found, heard = Events(), list[str]()
    ends = [found.subscribe(lambda event: ends[0]()), found.subscribe(lambda event: heard.append(event.text))]
    found.tell("server", "one")
    found.tell("server", "two")
    assert heard == ["one", "two"]


def test_every_kind_is_listed() -> None:
    assert get_args(Kind) == KINDS
