"""Tests of the notes about members: which members they describe, what they say, and how they stay short."""

from __future__ import annotations

from typing import Any

from lbdns.commands.terminal.member_notes import member_note, other_notes, problem_notes
from tests.commands.terminal.documents import STARTED, member, override

NOW = STARTED + 3700.5
NEEDED = "needed although it is in alarm (run queue 44 > 30), for 12 s"


def problems(*members: dict[str, Any]) -> list[str]:
    return [str(note) for note in problem_notes(members, NOW)]


def others(*members: dict[str, Any]) -> list[str]:
    return [str(note) for note in other_notes(members, NOW)]


def test_each_member_has_one_note() -> None:
    drained = member("gandalf", "drained", reason="drained by root: new kernel", overrides=[override()])
    assert member_note(drained, NOW) == "drained by root 11min40s ago: new kernel"
    needed = member("frodo", "alarm", reason="alarm: run queue 44 > 30", guard=NEEDED)
    assert member_note(needed, NOW) == NEEDED
    assert member_note(member("sam"), NOW) == ""
    weight = override("weight", factor=0.5)
    silent = member("bilbo", "silent", reason="no report for 9.0 s", guard="ramp 40%", overrides=[weight])
    assert member_note(silent, NOW) == "no report for 9.0 s; weight 0.5 by root 11min40s ago: new kernel"
    bare = {"name": "old", "state": "alarm", "share": 0.0, "reason": "alarm: x"}  # of an older server
    assert member_note(bare, NOW) == "alarm: x"


def test_problems_are_told_from_orders_and_slow_start() -> None:
    members = [
        member("ramping", guard="ramp 40%"),
        member("drained", "drained", overrides=[override()]),
        member("down", "alarm", reason="forced down by root", overrides=[override("down")]),
        member("new", "unknown", reason="has never reported"),
        member("needed", "alarm", reason="alarm: run queue 44 > 30", guard=NEEDED),
        member("silent", "silent", reason="no report for 12 s"),
        member("calm"),
    ]
    assert problems(*members) == ["silent: no report for 12 s", f"needed: {NEEDED}", "new: has never reported"]
    assert others(*members) == [
        "drained: drained by root 11min40s ago: new kernel",
        "down: forced down by root 11min40s ago: new kernel",
        "ramping: ramp 40%",
    ]


def test_members_with_the_same_note_share_a_line() -> None:
    members = [member(f"m{number}", "drained", overrides=[override()]) for number in range(5)]
    assert others(*members) == ["m0, m1, m2 and 2 more: drained by root 11min40s ago: new kernel"]
    assert others(*members[:3]) == ["m0, m1, m2: drained by root 11min40s ago: new kernel"]


def test_each_condition_has_three_notes_and_the_names_of_the_rest() -> None:
    silent = [member(f"m{number}", "silent", reason=f"no report for {number} s") for number in range(5)]
    assert problems(*silent, member("x", "alarm", reason="alarm: y")) == [
        "m0: no report for 0 s",
        "m1: no report for 1 s",
        "m2: no report for 2 s",
        "2 more (silent): m3, m4",
        "x: alarm: y",
    ]


def test_names_and_reasons_from_outside_do_not_steer_the_terminal() -> None:
    (note,) = problems(member("\x1b[2J", "silent", reason="\x07"))
    assert note == "\\x1b[2J: \\x07"
