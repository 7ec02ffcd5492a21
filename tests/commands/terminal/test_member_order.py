"""Tests of the order of members by trouble, and of the summary of a pool."""

from __future__ import annotations

from typing import Any

import pytest

from lbdns.commands.terminal.member_order import (
    by_trouble,
    condition,
    condition_counts,
    in_state,
    pool_summary,
    state_text,
)  # fmt: skip


def member(name: str, state: str = "usable", share: float = 0.0, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "share": share, **more}


MEMBERS = [
    member("calm", share=0.1),
    member("busy", share=0.4),
    member("weighted", overrides=[{"kind": "weight"}]),
    member("back", guard="ramp 40%"),
    member("drained", "drained"),
    member("new", "unknown"),
    member("hole", guard="quarantined: it fails, for 12 s"),
    member("last", guard="needed although it fails, for 12 s"),
    member("alarm", "alarm"),
    member("dead", "silent"),
    member("dead-and-popular", "silent", share=0.3),
]


def test_members_in_trouble_come_first() -> None:
    assert [found["name"] for found in by_trouble(MEMBERS)] == [
        "dead-and-popular", "dead", "alarm", "hole", "last", "new", "drained", "back", "weighted", "busy", "calm",
    ]  # fmt: skip


def test_conditions_can_be_selected() -> None:
    assert [found["name"] for found in in_state(MEMBERS, ["quarantined", "drained"])] == ["drained", "hole"]
    assert len(in_state(MEMBERS, ["usable"])) == 6
    assert in_state(MEMBERS, []) == MEMBERS
    assert condition(member("later", "a state of a later version")) == "a state of a later version"


BUSY = {"idle_workers": 0, "busy_workers": 8}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"score": 0, "score_parts": {"cpu_idle": 0.0}}, "full"),
        ({"score": 0, "score_parts": {}}, "usable"),  # no metric of the score is known
        ({"score": 0}, "usable"),  # an older server
        ({"score": 1, "score_parts": {"cpu_idle": 1.0}}, "usable"),
        ({"score": 40, "metrics": BUSY}, "full"),
        ({"score": 40, "metrics": {"idle_workers": 0, "busy_workers": 0}}, "usable"),
        ({"score": 40, "metrics": BUSY, "overrides": [{"kind": "weight"}]}, "full"),
        ({"score": 40, "metrics": BUSY, "guard": "ramp 40%"}, "slow start"),
    ],
)
def test_a_usable_member_without_spare_capacity_is_full(more: dict[str, Any], expected: str) -> None:
    found = member("busy", **more)
    assert condition(found) == expected
    shown = state_text(found)
    assert (shown.plain, shown.style) == (("full", "yellow") if expected == "full" else ("usable", "green"))
    assert in_state([found], ["usable"]) == [found], "its state is still usable"
    assert in_state([found], ["full"]) == [found] * (expected == "full")
    assert condition(member("dead", "silent", **more)) == "silent"


def test_an_alarm_is_not_the_same_as_a_need_or_an_order() -> None:
    needed = member("needed", "alarm", guard="needed although it is in alarm (run queue 44), for 12 s")
    down = member("down", "alarm", overrides=[{"kind": "weight"}, {"kind": "down"}])
    assert [condition(found) for found in (needed, down)] == ["failing but needed", "forced down"]
    assert in_state([needed, down], ["alarm"]) == [needed, down], "their state is still alarm"
    assert str(condition_counts([needed, down, down])) == "; 1 failing but needed, 2 forced down"
    assert str(condition_counts([member("calm")])) == ""


def test_a_summary_counts_all_conditions() -> None:
    pool = {"name": "web\x1b[2J", "members": MEMBERS, "fail_open": True}
    assert str(pool_summary(pool)) == (
        "pool web\\x1b[2J: 6 of 11 members usable; 2 silent, 1 alarm, 1 quarantined, 1 failing but needed, 1 unknown, "
        "1 drained, 1 slow start, 1 overridden; fail open"
    )
