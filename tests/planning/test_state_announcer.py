"""Tests of announcements: the events recorded when states, quarantines or fail-open change."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lbdns.choosing.guard_rails.guard_rails import NO_GUARD, Guard
from lbdns.events.event_log import EventLog
from lbdns.model.liveness import Liveness, State
from lbdns.model.overrides import NO_OVERRIDES
from lbdns.model.snapshot import EMPTY_SNAPSHOT
from lbdns.planning.state_announcer import StateAnnouncer
from tests.answering.farms import hobbit

POOL = hobbit().pools[0]
QUARANTINED = Guard("nothing listens", 10.0, quarantined=True)
NEEDED = Guard("nothing listens", 10.0)


def liveness(*states: State, fail_open: str = "") -> Liveness:
    return Liveness(states, (), fail_open, 0.0)


def announced(before: Liveness, after: Liveness, selects: bool = True) -> list[tuple[str, str, str, str]]:
    events = EventLog()
    announcer = StateAnnouncer(events, selects)
    announcer.states(POOL, before, after, EMPTY_SNAPSHOT, NO_OVERRIDES, 20.0)
    assert not announcer.announce(20.0)
    return [(event.kind, event.level, event.member, event.text) for event in events.newest()]


def test_a_change_of_state_names_the_reason() -> None:
    found = announced(liveness("usable", "usable", "silent"), liveness("usable", "silent", "usable"))
    assert found == [
        ("state", "warning", "frodo", "pool web: frodo is silent (was usable): has never reported"),
        ("state", "info", "gandalf", "pool web: gandalf is usable (was silent)"),
    ]


def test_fail_open_matters_only_where_members_are_selected() -> None:
    closed, opened = liveness(*("silent",) * 3), liveness(*("silent",) * 3, fail_open="no member is usable")
    text = "pool web: fails open: no member is usable; all members that are not drained may be selected"
    assert announced(closed, opened) == [("fail_open", "warning", "", text)]
    assert announced(opened, closed) == [("fail_open", "info", "", "pool web: no longer fails open")]
    assert announced(opened, opened) == []
    assert announced(closed, opened, selects=False) == []


@pytest.mark.parametrize(
    ("before", "after", "state", "texts"),
    [
        (NO_GUARD, QUARANTINED, "usable", ["pool web: bilbo is quarantined: nothing listens"]),
        (QUARANTINED, QUARANTINED, "usable", []),
        (
            QUARANTINED,
            NO_GUARD,
            "usable",
            ["pool web: bilbo is no longer quarantined (duration: 10 s; reason: nothing listens)"],
        ),
        (QUARANTINED, NO_GUARD, "silent", []),
        (
            QUARANTINED,
            NEEDED,
            "usable",
            [
                "pool web: bilbo is selected again although nothing listens, "
                "because the other members cannot handle the load"
            ],
        ),
    ],
)
def test_quarantines(before: Guard, after: Guard, state: State, texts: Sequence[str]) -> None:
    events = EventLog()
    rest = (NO_GUARD, NO_GUARD)
    announcer = StateAnnouncer(events, selects=True)
    announcer.guards(POOL, (before, *rest), (after, *rest), liveness(state, "usable", "usable"), 20.0)
    announcer.announce(20.0)
    assert [event.text for event in events.newest()] == texts
