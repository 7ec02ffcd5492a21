"""Tests of the explanation of an answer: it agrees with the chooser, and its predicted member is selected next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.choosing.moving_averages import MIN_SPAN
from lbdns.model.overrides import Override
from lbdns.planning.explanation import PREVIEW, UPCOMING, next_selections, probabilities
from lbdns.policies import POLICIES
from lbdns.policies.plan import Part, Plan
from tests.answering.farms import MEMBERS
from tests.planning.stage import NAMES, OWNERS, Stage, ready
from tests.policies.views import member as a_member
from tests.policies.views import view

LIGHT = "traffic is light: highest score"
POOL = view(a_member(score=60), a_member(score=50))
HEAVY = {owner: POLICIES[NAMES[owner]].reason(lambda: POOL) for owner in OWNERS}
FIELDS = {
    "name", "owner", "pool", "zone", "policy", "ttl", "next", "alternatives", "why", "summary", "fail_open",
    "fail_open_reason", "backup", "sites", "orders", "measured", "interval_s", "answers_per_s", "requests_per_s",
    "answers_allowed", "plan", "members",
}  # fmt: skip
OF_MEMBERS = {
    "name", "addresses", "state", "reason", "guard", "candidate", "suspect", "score", "score_parts", "age_s", "metrics",
    "capacity", "capacity_share", "cores", "load", "charge", "credit", "left", "other_tasks", "standstill", "ramp",
    "weight", "probability", "answers", "share", "overrides",
}  # fmt: skip


# Policies and their words


def test_every_policy_has_a_reason() -> None:
    assert all(spec.why for spec in POLICIES.values())
    texts = [spec.reason(lambda: POOL, part) for spec in POLICIES.values() for part in get_args(Part)]
    texts = [text for text in texts if text]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("owner", OWNERS)
def test_the_fields(owner: str) -> None:
    stage = ready()
    told = stage.explain(owner)
    assert set(told) == FIELDS
    assert all(set(member) == OF_MEMBERS for member in told["members"])
    assert {key: told[key] for key in ("name", "owner", "pool", "zone", "policy", "ttl")} == {
        "name": f"{owner}.hobbit", "owner": owner, "pool": "web", "zone": "hobbit", "policy": NAMES[owner], "ttl": 0,
    }  # fmt: skip
    assert told["why"].startswith(LIGHT if owner == "best" else HEAVY[owner])
    assert told["plan"]["length"] == len(stage.table.cursors["web", NAMES[owner]].plan.order)
    assert (told["plan"]["given"], told["plan"]["repeats"]) == (0, True)
    assert told["plan"]["part"] == ("light" if owner == "best" else "expected")


@pytest.mark.parametrize("owner", OWNERS)
def test_before_the_first_report_all_take_turns(owner: str) -> None:
    stage = Stage()
    told = stage.explain(owner)
    assert told["why"] == "the pool fails open (no member is usable): all members that are not drained take turns"
    assert (told["fail_open"], told["fail_open_reason"]) == (True, "no member is usable")
    assert told["requests_per_s"] is None
    assert not told["measured"]
    for member in told["members"]:
        assert (member["state"], member["reason"], member["candidate"]) == ("unknown", "has never reported", True)
        assert (member["score"], member["age_s"], member["score_parts"], member["metrics"]) == (None, None, {}, {})
        assert member["probability"] == pytest.approx(1 / 3, abs=1e-5)
    assert stage.ask(owner, 4) == told["plan"]["next"][:4] == ["bilbo", "frodo", "gandalf", "bilbo"]


# The next selections

#: Seconds that pass; who reports, with what score and load; who is drained or weighed; questions
STEPS = st.one_of(
    st.tuples(st.just("wait"), st.floats(0.01, 4.0)),
    st.tuples(
        st.just("report"),
        st.sets(st.sampled_from(MEMBERS), min_size=1),
        st.integers(0, 3),
        st.dictionaries(
            st.sampled_from(["busy_workers", "run_queue", "requests_per_s", "cpu_count", "requests_total"]),
            st.sampled_from((0.0, 0.5, 4.0, 30.0, 1000.0)),
        ),
        st.sampled_from(["", "", "", "sick"]),
    ),
    st.tuples(st.just("order"), st.sampled_from(("drain", "up", "down", "weight")), st.sampled_from(MEMBERS)),
    st.tuples(st.just("free")),
    st.tuples(st.just("ask"), st.sampled_from(OWNERS), st.integers(1, 40)),
)


def act(stage: Stage, step: tuple) -> None:  # type: ignore[type-arg]
    what, *values = step
    if what == "wait":
        stage.now += values[0]
    elif what == "report":
        members, score, metrics, alarm = values
        stage.report(*members, score=score, metrics=metrics, alarm=alarm)
    elif what == "order":
        stage.order(Override(values[0], f"{values[1]}.hobbit", factor=0.5))
    elif what == "free":
        stage.order()
    else:
        stage.ask(*values)
    stage.plan()


@given(st.lists(STEPS, max_size=12))
@settings(max_examples=30, deadline=None)
def test_the_predicted_members_are_selected_and_explaining_changes_nothing(history: list[tuple]) -> None:  # type: ignore[type-arg]
    stage, untold = Stage(), Stage()
    for step in history:
        act(stage, step)
        act(untold, step)
        for owner in OWNERS:
            makes_sense(stage.explain(owner))
    for owner in OWNERS:
        told, coming = stage.explain(owner), stage.upcoming(owner)
        assert (coming["members"], coming["why"]) == (told["plan"]["next"][:UPCOMING], told["why"])
        assert coming["summary"] == told["summary"]
        assert coming["share"] is None or 0 < coming["share"] <= 1
        assert stage.ask(owner, PREVIEW) == told["plan"]["next"]
        assert untold.ask(owner, PREVIEW) == told["plan"]["next"], "also without an explanation before"


def test_the_planned_share_of_the_next_member_is_its_share_of_the_answers() -> None:
    stage = ready()
    coming = stage.upcoming("weighted")
    answers = stage.ask("weighted", 300)
    assert coming["share"] == pytest.approx(answers.count(coming["members"][0]) / 300, abs=0.02)
    assert stage.upcoming("round-robin")["share"] is None


def makes_sense(told: Mapping[str, Any]) -> None:
    assert told["next"] == told["plan"]["next"][0]
    members = told["members"]
    assert sum(member["probability"] for member in members) == pytest.approx(1, abs=1e-4)
    assert sum(member["capacity_share"] for member in members) == pytest.approx(1, abs=1e-4)
    assert all(0 <= member["probability"] <= 1 for member in members)
    (due,) = (member for member in members if member["name"] == told["next"])
    assert due["probability"] > 0
    assert due["candidate"] or "probe" in told["why"]
    assert not told["fail_open"] or told["fail_open_reason"] in told["why"]


@given(
    st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))),
    st.integers(0, 40),
    st.integers(0, 30),
)
def test_a_plan_continues_where_it_repeats(plan: tuple[int, int], given_out: int, count: int) -> None:
    length, repeat_from = plan
    order = list(range(length))
    while len(order) < given_out + count:
        order += range(repeat_from, length)
    assert (
        list(next_selections(Plan(range(length), repeat_from), given_out, count))
        == order[given_out : given_out + count]
    )


def test_probabilities_are_about_the_present_part_of_the_plan() -> None:
    plan = Plan((9, 2, 2, 2, 0, 1, 1, 2), repeat_from=4, probes=1, light=True)
    assert probabilities(plan, 0) == {9: 0.25, 2: 0.75}, "a probe, then three for light traffic"
    assert probabilities(plan, 1) == {2: 1.0}
    for given_out in range(4, 12):
        assert probabilities(plan, given_out) == {0: 0.25, 1: 0.5, 2: 0.25}
    probed = Plan((9, 0, 1), repeat_from=1, probes=1)
    assert probabilities(probed, 0) == pytest.approx({9: 1 / 3, 0: 1 / 3, 1: 1 / 3})
    assert probabilities(probed, 1) == {0: 0.5, 1: 0.5}


def test_probabilities_follow_the_shares_until_more_queries_than_expected_arrive() -> None:
    plan = Plan((1, 1, 0, 2, 0, 1, 1), repeat_from=3, weights=(0.25, 0.75, 0.0))
    for given_out in range(3):
        assert probabilities(plan, given_out) == {0: 0.25, 1: 0.75}
    for given_out in range(3, 12):
        assert probabilities(plan, given_out) == {0: 0.25, 1: 0.5, 2: 0.25}


# Light and heavy traffic


def test_light_traffic_gets_the_highest_score_until_it_is_heavy() -> None:
    stage = ready()
    told = stage.explain()
    allowed = told["answers_allowed"]
    assert allowed == 20 + 2, "ten seconds of two per interval, and one interval more"
    assert (told["next"], told["why"]) == ("frodo", LIGHT)
    assert stage.members()["frodo"]["probability"] == 1
    assert stage.ask(times=allowed) == ["frodo"] * allowed
    told = stage.explain()
    assert told["answers_allowed"] == 0
    assert told["why"] == POLICIES["best"].why
    assert stage.members()["frodo"]["probability"] == pytest.approx(1 / 3, abs=0.02), "they differ only in the score"
    assert told["plan"]["given"] == allowed
    assert told["answers_per_s"] == pytest.approx(allowed / 10)


@pytest.mark.parametrize("owner", ["best", "weighted"])
def test_credit_decides_whose_turn_it_is(owner: str) -> None:
    """The live page states so. A selection of a member with share w and credit c is due after (1/2 - c) / w selections;
    the next answer names the member whose selection is due first, whatever its score."""
    stage = Stage()
    scores = dict(zip(MEMBERS, (90, 40, 60), strict=True))
    for _ in range(2):
        for number, name in enumerate(MEMBERS):
            stage.report(name, score=scores[name], metrics={"cpu_count": 2.0**number, "cpu_idle": 80.0})
        stage.plan()
        stage.ask(owner, 40)
        stage.now += 1
    stage.report()
    stage.plan()
    named = set()
    for _ in range(30):
        told = stage.explain(owner)
        assert told["plan"]["part"] == "expected"
        due = {member["name"]: (0.5 - member["credit"]) / member["probability"] for member in told["members"]}
        assert due[told["next"]] == pytest.approx(min(due.values()), abs=0.1)
        named.update(stage.ask(owner))
    assert named == set(MEMBERS), "not only the member with the highest score"


def test_answers_count_for_every_server() -> None:
    stage = ready(servers=4)
    assert stage.explain()["answers_allowed"] == 5 + 1
    stage.ask(times=10)
    assert stage.explain()["answers_per_s"] == pytest.approx(4 * 10 / 10)
    assert stage.explain("weighted")["answers_allowed"] == 6
    stage.ask("weighted", 2)
    assert stage.explain("weighted")["answers_allowed"] == 4
    stage.now += 0.5
    stage.report()
    stage.plan()
    told = stage.explain()
    assert told["answers_per_s"] == pytest.approx(4 * 10 / MIN_SPAN), "the chooser knows of its first answers"
    assert (told["answers_allowed"], told["why"]) == (0, POLICIES["best"].why)


@pytest.mark.parametrize(
    ("owner", "why"),
    [
        (
            "best",
            "traffic is light: one of 2 members that take turns, because no other member has a much higher score or "
            "much faster cores",
        ),
        ("best-score", "highest score; 2 members share this score and take turns"),
    ],
)
def test_ties_take_turns(owner: str, why: str) -> None:
    stage = ready()
    stage.report("gandalf", score=60)
    stage.plan()
    told = stage.explain(owner)
    assert told["why"] == why
    assert {name: member["probability"] for name, member in stage.members(owner).items()} == {
        "bilbo": 0, "frodo": 0.5, "gandalf": 0.5,
    }  # fmt: skip
    assert set(stage.ask(owner, 2)) == {"frodo", "gandalf"}
