"""Checks that scheduled events during a measurement happen on time, and that their effects on answers are detected."""

from __future__ import annotations

import threading
import time

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.loads.scheduled_events import ScheduledEvent, ScheduledEvents, first_given, last_given

LIMIT_S = 10.0


def test_events_happen_in_their_order_and_answers_are_seen() -> None:
    heard: list[str] = []
    over = threading.Event()

    def last() -> None:
        heard.append("second")
        over.set()

    events = [ScheduledEvent(0.1, "second", last), ScheduledEvent(0.0, "first", lambda: heard.append("first"))]
    begun = time.time()
    with ScheduledEvents(events, lambda: {"bilbo": len(heard)}) as happenings:
        assert over.wait(LIMIT_S)
    assert heard == ["first", "second"]
    assert begun <= happenings.done["first"] < happenings.done["second"]
    assert happenings.done["second"] - begun >= 0.1
    assert happenings.seen[0][1] == {"bilbo": 1}


def test_what_has_not_begun_by_the_end_is_not_done() -> None:
    with ScheduledEvents([ScheduledEvent(60.0, "late", lambda: pytest.fail("too late"))], dict) as happenings:
        pass
    assert happenings.done == {}


def test_an_error_is_raised_in_the_end() -> None:
    def fail() -> None:
        failed.set()
        raise LbdnsError("Apache doesn't start")

    failed = threading.Event()
    with pytest.raises(LbdnsError, match="Apache"), ScheduledEvents([ScheduledEvent(0.0, "back", fail)], dict):
        assert failed.wait(LIMIT_S)


def test_an_error_of_the_measurement_goes_first() -> None:
    failed = threading.Event()

    def fail() -> None:
        failed.set()
        raise LbdnsError("Apache doesn't start")

    def measure() -> None:
        with ScheduledEvents([ScheduledEvent(0.0, "back", fail)], dict):
            assert failed.wait(LIMIT_S)
            raise LbdnsError("load process ended")

    with pytest.raises(LbdnsError, match="load"):
        measure()


SEEN = [(10.0, {"a": 5}), (10.5, {"a": 9}), (11.0, {"a": 12}), (11.5, {"a": 12}), (12.0, {"a": 12}), (12.5, {"a": 14})]


def test_how_long_one_was_handed_out() -> None:
    assert last_given(SEEN[:5], "a", 10.0) == 1.0
    assert last_given(SEEN[:5], "a", 11.0) == 0.0
    assert last_given(SEEN, "a", 13.0) is None
    assert last_given(SEEN, "b", 10.0) == 0.0


def test_when_one_was_handed_out_again() -> None:
    assert first_given(SEEN, "a", 11.0) == 1.5
    assert first_given(SEEN[:5], "a", 11.0) is None
    assert first_given(SEEN, "b", 10.0) is None
