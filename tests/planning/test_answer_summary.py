"""Tests of the sentences that state why the next answer names a member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from lbdns.planning.answer_summary import NextSelection, percent, summarize
from lbdns.policies import POLICIES
from lbdns.policies.member_columns import MemberView
from lbdns.policies.plan import Part, PoolView
from tests.planning.stage import OWNERS, ready

NAMES = ("bilbo", "frodo", "gandalf", "merry")


def selection(member: int = 1, scores: Sequence[int] = (50, 60, 40), **more: Any) -> NextSelection:
    """Return the selection of a member of a pool with these scores; ``speeds`` are relative speeds of the cores."""
    speeds: Sequence[float] = more.pop("speeds", (1.0,) * len(scores))
    members = tuple(
        MemberView(True, False, score, 0.0, capacity=2 * speed, cores=2.0)
        for score, speed in zip(scores, speeds, strict=True)
    )
    found: dict[str, Any] = {
        "previous": 0, "candidates": len(scores), "share": 0.4, "capacity_share": 0.4, "is_starting": False,
    }  # fmt: skip
    view = PoolView(members, 1.0, 1.0, 1.0, 10)
    return NextSelection(member, names=NAMES, view=lambda: view, **{**found, **more})


TURN = "next in turn: "
OF = "of the usable capacity"  # merry is not usable
WITH = f"of the answers (it has 40 % {OF})"
CASES: Sequence[tuple[str, Part, Mapping[str, Any], str]] = [
    ("best", "light", {}, "few queries, and frodo has the highest score (60), ahead of bilbo with 50"),
    ("best", "light", {"scores": (99, 100, 98)},
     "few queries, so the 3 members with the highest scores (98 to 100) take turns"),
    ("best", "light", {"scores": (100, 100, 100)},
     "few queries, so the 3 members with the highest scores (100) take turns"),
    ("best", "light", {"scores": (99, 100, 98), "speeds": (1, 2, 1)},
     "few queries, and frodo has the fastest processors of the 3 members with the highest scores (98 to 100)"),
    ("best", "light", {"scores": (99, 100, 98), "speeds": (2, 2, 1)},
     "few queries, so the 2 fastest of the 3 members with the highest scores (98 to 100) take turns"),
    ("best", "light", {"member": 0}, ""),
    ("best", "expected", {"share": 0.6}, f"requests wait less at frodo than elsewhere, so it gets 60 % {WITH}"),
    ("best", "expected", {"share": 0.1}, f"{TURN}requests wait longer at frodo than elsewhere, so it gets 10 % {WITH}"),
    ("best", "expected", {"share": 0.41}, f"{TURN}requests wait about as long everywhere, so frodo gets 41 % {WITH}"),
    ("best", "expected", {"share": 0.1, "is_starting": True}, f"{TURN}frodo is in slow start, and gets 10 % {WITH}"),
    ("best", "expected", {"share": None}, ""),
    ("best", "expected", {"capacity_share": 0.0}, ""),
    ("best", "overflow", {"share": None},
     f"queries arrive faster than reports can show, so answers follow capacity: frodo has 40 % {OF}"),
    ("best_score", "expected", {}, "frodo has the highest score (60), ahead of bilbo with 50"),
    ("best_score", "expected", {"scores": (60, 60, 40)}, "2 members have the highest score (60) and take turns"),
    ("best_score", "expected", {"member": 2}, ""),
    ("round_robin", "expected", {}, "next in turn after bilbo; the members' load is ignored"),
    ("round_robin", "expected", {"previous": None}, "all 3 members take turns, whatever their load"),
    ("weighted", "expected", {"share": 0.043, "capacity_share": 0.043},
     f"{TURN}frodo has 4.3 % {OF}, and gets 4.3 % of the answers"),
    ("weighted", "expected", {"scores": (1, 1, 1, 1)},
     f"{TURN}frodo has 40 % of the capacity, and gets 40 % of the answers"),
    ("weighted", "expected", {"share": None}, ""),
    ("two_choices", "expected", {}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "part", "more", "expected"), CASES)
def test_a_sentence_states_the_number_that_decided(
    policy: str, part: Part, more: Mapping[str, Any], expected: str
) -> None:
    assert summarize(policy, part, selection(**more)) == expected


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.0041, "0.4 %"), (0.0994, "9.9 %"), (0.0996, "10 %"), (0.333, "33 %"), (1, "100 %")],
)
def test_shares_have_the_precision_that_tells_members_apart(share: float, text: str) -> None:
    assert percent(share) == text


def test_each_policy_of_a_pool_has_a_sentence() -> None:
    stage = ready()
    assert stage.upcoming("best")["summary"] == (
        "few queries, and frodo has the highest score (60), ahead of bilbo with 50"
    )
    assert stage.upcoming("round-robin")["summary"] == "all 3 members take turns, whatever their load"
    first, second = stage.ask("round-robin"), stage.upcoming("round-robin")
    assert second["summary"].startswith(f"next in turn after {first[0]};")
    for owner in OWNERS:
        coming = stage.upcoming(owner)
        assert coming["summary"], owner
        assert len(coming["summary"]) < 120
    assert set(POLICIES) == {owner.replace("-", "_") for owner in OWNERS}


def test_all_members_of_a_pool_that_fails_open_take_turns() -> None:
    stage = ready()
    stage.now += 1000
    stage.plan()
    for owner in ("best", "round-robin", "weighted"):
        assert stage.upcoming(owner)["summary"] == (
            "no member is usable, so all members that are not drained take turns"
        )
