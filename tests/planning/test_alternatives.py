"""Tests of plans for answers that name several members, and of their explanations."""

from __future__ import annotations

import pytest

from lbdns.answering.member_lists import ListCursor
from lbdns.model.overrides import Override
from tests.answering.farms import MEMBERS
from tests.planning.stage import NAMES, OWNERS, Stage, ready


def named(stage: Stage, owner: str, times: int = 1) -> list[list[str]]:
    """Return the members that the next ``times`` answers name, best first."""
    cursor = stage.table.cursors["web", NAMES[owner]]
    assert isinstance(cursor, ListCursor)
    return [[stage.pool.members[i].name for i in cursor.members(cursor.next())] for _ in range(times)]


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("answers", [2, 3, 5])
def test_the_explanation_names_the_members_of_the_next_answer(owner: str, answers: int) -> None:
    stage = ready(answers=answers)
    for _ in range(10):
        told, coming = stage.explain(owner), stage.upcoming(owner)
        (members,) = named(stage, owner)
        assert [told["next"], *told["alternatives"]] == members
        assert [coming["members"][0], *coming["alternatives"]] == members
        assert len(set(members)) == len(members) == min(answers, 3)


@pytest.mark.parametrize("owner", OWNERS)
def test_an_answer_of_one_member_has_no_alternatives(owner: str) -> None:
    stage = ready()
    assert stage.explain(owner)["alternatives"] == stage.upcoming(owner)["alternatives"] == []
    assert all(cursor.plan.ranking == () for cursor in stage.table.cursors.values())


@pytest.mark.parametrize("owner", OWNERS)
def test_the_first_member_does_not_depend_on_the_others(owner: str) -> None:
    one, several = ready(), ready(answers=3)
    for _ in range(5):
        assert one.ask(owner, 7) == [members[0] for members in named(several, owner, 7)]
        for stage in (one, several):
            stage.now += 0.5
            stage.report("bilbo", metrics={"busy_workers": 3.0, "requests_per_s": 40.0})
            stage.plan()


@pytest.mark.parametrize("owner", ["best", "best-score"])
def test_few_queries_get_the_members_by_score(owner: str) -> None:
    stage = Stage(answers=3)
    for member, score in zip(MEMBERS, (40, 90, 60), strict=True):
        stage.report(member, score=score)
    stage.plan()
    assert named(stage, owner, 3) == [["frodo", "gandalf", "bilbo"]] * 3


@pytest.mark.parametrize("owner", OWNERS)
def test_drained_and_forced_members(owner: str) -> None:
    stage = Stage(answers=3)
    stage.report("frodo", "gandalf")
    stage.order(Override("up", "bilbo.hobbit"), Override("drain", "frodo.hobbit"))
    stage.plan()
    assert {frozenset(members) for members in named(stage, owner, 20)} == {frozenset(("bilbo", "gandalf"))}
    stage.order(Override("down", "gandalf.hobbit"))
    stage.now += 0.1
    stage.plan()
    assert named(stage, owner, 5) == [["frodo"]] * 5
    assert stage.explain(owner)["alternatives"] == []


@pytest.mark.parametrize("owner", OWNERS)
def test_a_pool_that_fails_open_names_all_members_in_turn(owner: str) -> None:
    stage = Stage(answers=2)
    stage.order(Override("drain", "frodo.hobbit"))
    stage.plan()
    lists = named(stage, owner, 4)
    assert sorted(lists[:2]) == [["bilbo", "gandalf"], ["gandalf", "bilbo"]]
    assert lists[2:] == lists[:2]
