"""The explanation of an answer: every figure against the choosers, and above all that what it says comes next does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.explanation import PREVIEW, find_owner, full_owner, probabilities, to_come, unknown_name
from lbdns.overrides import Override
from lbdns.policies import FEW, HIGHEST, POLICIES, WHY, WHY_FIRST
from lbdns.policies.averages import BEGINNING
from lbdns.policies.guard_rails.black_hole import FIRST_PROBE
from lbdns.policies.plan import Plan
from tests.answering.farms import HOBBIT, MEMBERS, hobbit, make_farm, pool
from tests.lbdns.stage import NAMES, OWNERS, Stage

FIELDS = {
    "name", "owner", "pool", "zone", "policy", "ttl", "next", "why", "fail_open", "fail_open_reason", "measured",
    "interval_s", "answers_per_s", "requests_per_s", "answers_allowed", "plan", "members",
}  # fmt: skip
OF_MEMBERS = {
    "name", "addresses", "state", "reason", "guard", "candidate", "suspect", "score", "score_parts", "age_s", "metrics",
    "capacity", "capacity_share", "cores", "load", "charge", "credit", "left", "ramp", "weight", "probability",
    "answers", "share", "overrides",
}  # fmt: skip


def ready(**options: float) -> Stage:
    """All have reported, frodo with the highest score."""
    stage = Stage(**options)  # type: ignore[arg-type]
    stage.report()
    stage.report("frodo", score=60)
    stage.plan()
    return stage


# Policies and their words


def test_every_policy_has_its_words() -> None:
    assert set(WHY) == set(POLICIES)
    assert set(WHY_FIRST) <= set(POLICIES)
    texts = [*WHY.values(), *WHY_FIRST.values()]
    assert len({text for text in texts if text}) == len(texts)


@pytest.mark.parametrize("owner", OWNERS)
def test_the_fields(owner: str) -> None:
    stage = ready()
    told = stage.explain(owner)
    assert set(told) == FIELDS
    assert all(set(member) == OF_MEMBERS for member in told["members"])
    assert {key: told[key] for key in ("name", "owner", "pool", "zone", "policy", "ttl")} == {
        "name": f"{owner}.hobbit", "owner": owner, "pool": "web", "zone": "hobbit", "policy": NAMES[owner], "ttl": 0,
    }  # fmt: skip
    assert told["why"].startswith(FEW if owner == "best" else WHY[NAMES[owner]])
    assert told["plan"]["length"] == len(stage.table.handouts["web", NAMES[owner]].plan.order)
    assert (told["plan"]["given"], told["plan"]["repeats"]) == (0, True)


@pytest.mark.parametrize("owner", OWNERS)
def test_before_the_first_report_all_take_turns(owner: str) -> None:
    stage = Stage()
    told = stage.explain(owner)
    assert told["why"] == "the pool fails open (no member is usable): all that are not drained take turns"
    assert (told["fail_open"], told["fail_open_reason"]) == (True, "no member is usable")
    assert told["requests_per_s"] is None
    assert not told["measured"]
    for member in told["members"]:
        assert (member["state"], member["reason"], member["candidate"]) == ("unknown", "has never reported", True)
        assert (member["score"], member["age_s"], member["score_parts"], member["metrics"]) == (None, None, {}, {})
        assert member["probability"] == pytest.approx(1 / 3, abs=1e-5)
    assert stage.ask(owner, 4) == told["plan"]["next"][:4] == ["bilbo", "frodo", "gandalf", "bilbo"]


# What comes next

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
def test_what_is_told_to_come_next_does_and_telling_it_moves_nothing(history: list[tuple]) -> None:  # type: ignore[type-arg]
    stage, untold = Stage(), Stage()
    for step in history:
        act(stage, step)
        act(untold, step)
        for owner in OWNERS:
            makes_sense(stage.explain(owner))
    for owner in OWNERS:
        told = stage.explain(owner)
        assert stage.ask(owner, PREVIEW) == told["plan"]["next"]
        assert untold.ask(owner, PREVIEW) == told["plan"]["next"], "without any explanation before, too"


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
def test_a_plan_goes_on_where_it_repeats(plan: tuple[int, int], given_out: int, count: int) -> None:
    length, repeat_from = plan
    order = list(range(length))
    while len(order) < given_out + count:
        order += range(repeat_from, length)
    assert list(to_come(Plan(range(length), repeat_from), given_out, count)) == order[given_out : given_out + count]


def test_probability_is_of_what_is_under_way() -> None:
    plan = Plan((9, 2, 2, 2, 0, 1, 1, 2), repeat_from=4, probes=1)
    assert probabilities("best", plan, 0) == {9: 0.25, 2: 0.75}, "a probe, then three that are few"
    assert probabilities("best", plan, 1) == {2: 1.0}
    for given_out in range(4, 12):
        assert probabilities("best", plan, given_out) == {0: 0.25, 1: 0.5, 2: 0.25}
    probed = Plan((9, 0, 1), repeat_from=1, probes=1)
    for policy in ("best", "round_robin"):
        assert probabilities(policy, probed, 0) == pytest.approx({9: 1 / 3, 0: 1 / 3, 1: 1 / 3})
        assert probabilities(policy, probed, 1) == {0: 0.5, 1: 0.5}


# Few and many


def test_few_see_the_highest_score_until_they_are_many() -> None:
    stage = ready()
    told = stage.explain()
    allowed = told["answers_allowed"]
    assert allowed == 20 + 2, "ten seconds' worth of two an interval, and an interval's"
    assert (told["next"], told["why"]) == ("frodo", FEW)
    assert stage.members()["frodo"]["probability"] == 1
    assert stage.ask(times=allowed) == ["frodo"] * allowed
    told = stage.explain()
    assert told["answers_allowed"] == 0
    assert told["why"] == WHY["best"]
    assert stage.members()["frodo"]["probability"] == pytest.approx(1 / 3, abs=0.02), "they are alike but for the score"
    assert told["plan"]["given"] == allowed
    assert told["answers_per_s"] == pytest.approx(allowed / 10)


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
    assert told["answers_per_s"] == pytest.approx(4 * 10 / BEGINNING), "the chooser has heard of them, its first ones"
    assert (told["answers_allowed"], told["why"]) == (0, WHY["best"])


@pytest.mark.parametrize(("owner", "why"), [("best", FEW), ("best-score", HIGHEST)])
def test_ties_take_turns(owner: str, why: str) -> None:
    stage = ready()
    stage.report("gandalf", score=60)
    stage.plan()
    told = stage.explain(owner)
    assert told["why"] == f"{why}, which 2 members have: they take turns"
    assert {name: member["probability"] for name, member in stage.members(owner).items()} == {
        "bilbo": 0, "frodo": 0.5, "gandalf": 0.5,
    }  # fmt: skip
    assert set(stage.ask(owner, 2)) == {"frodo", "gandalf"}


# Members


def test_what_reports_say() -> None:
    stage = ready()
    stage.now += 1.5
    stage.report("bilbo", metrics={"busy_workers": 4.0, "cpu_count": 8.0}, score=47)
    stage.plan()
    members = stage.members()
    assert members["bilbo"]["metrics"] == {"busy_workers": 4.0, "cpu_count": 8.0}
    assert (members["bilbo"]["age_s"], members["frodo"]["age_s"]) == (0, 1.5)
    assert members["bilbo"]["score_parts"] == {"busy_workers": 47.0}
    assert members["frodo"]["score_parts"] == {}, "they don't make its score: it has another origin"
    assert (members["bilbo"]["load"], members["bilbo"]["cores"]) == (4.0, 8.0)
    assert members["bilbo"]["capacity_share"] == pytest.approx(8 / 24)
    assert members["bilbo"]["addresses"] == ["127.0.0.16"]
    assert members["gandalf"]["addresses"] == ["127.0.0.18", "127.0.0.19", "::18", "::19"]


def test_charges_and_credits_are_of_what_was_handed_out() -> None:
    stage = ready(servers=2)
    stage.ask("weighted", 4)
    for member in stage.members("weighted").values():
        count = member["answers"]
        assert member["charge"] == 2 * count, "the other server has given as many"
        assert member["share"] == pytest.approx(count / 4)
        assert member["credit"] == pytest.approx(4 / 3 - count, abs=0.01)
    before = stage.members("weighted")
    stage.now += 1
    stage.report("bilbo")
    stage.plan()
    after = stage.members("weighted")
    assert after["bilbo"]["charge"] == 0, "its report shows what came of them"
    assert after["frodo"]["charge"] == before["frodo"]["charge"] > 0
    assert after["frodo"]["credit"] == before["frodo"]["credit"]


def test_who_is_set_aside_and_why() -> None:
    stage = ready()
    stage.report("bilbo", alarm="disk full")
    stage.report("gandalf", gone=True)
    stage.now += 2
    stage.report("frodo", score=60)
    stage.plan()
    for owner in OWNERS:
        assert stage.explain(owner)["why"] == "no other member can be handed out"
    members = stage.members()
    assert (members["bilbo"]["state"], members["bilbo"]["reason"]) == ("alarm", "alarm: disk full")
    assert (members["gandalf"]["state"], members["gandalf"]["reason"]) == ("silent", "its agent said goodbye 2.0 s ago")
    assert [name for name in members if members[name]["candidate"]] == ["frodo"]
    stage.now += 60
    assert stage.members()["gandalf"]["reason"] == "its agent said goodbye 62 s ago"


def test_the_suspect_get_no_share() -> None:
    stage = ready()
    stage.now += 2.5
    stage.report("frodo", "gandalf")
    stage.plan()
    bilbo = stage.members("weighted")["bilbo"]
    assert (bilbo["state"], bilbo["suspect"], bilbo["candidate"], bilbo["probability"]) == ("usable", True, True, 0)
    assert stage.members("round-robin")["bilbo"]["probability"] > 0
    assert not stage.members()["frodo"]["suspect"]
    stage.now += 0.6
    stage.plan()
    assert stage.members()["bilbo"]["reason"] == "no report for 3.1 s"


def test_orders() -> None:
    stage = ready()
    drain = Override("drain", "bilbo.hobbit", by="root", reason="new kernel", since=5.0)
    weight = Override("weight", "gandalf.hobbit", "web", 0.25, "sam")
    stage.order(drain, weight, Override("up", "frodo.hobbit"), Override("drain", "frodo.hobbit", "other"))
    stage.plan()
    bilbo, frodo, gandalf = stage.members("weighted").values()
    assert (bilbo["state"], bilbo["reason"], bilbo["candidate"]) == ("drained", "drained by root: new kernel", False)
    assert bilbo["overrides"] == [drain.document()]
    assert (frodo["state"], frodo["reason"], frodo["weight"]) == ("usable", "forced up", 1.0)
    assert [override["kind"] for override in frodo["overrides"]] == ["up"], "the other one is of another pool"
    assert (gandalf["weight"], gandalf["reason"]) == (0.25, "weight 0.25 by sam")
    assert gandalf["capacity"] == frodo["capacity"] / 4
    assert gandalf["probability"] == pytest.approx(1 / 5, abs=0.02)

    stage.order(Override("down", "frodo.hobbit", by="root"), Override("weight", "bilbo.hobbit", factor=2.0))
    stage.plan()
    assert stage.members()["frodo"]["state"] == "alarm"
    assert stage.members()["frodo"]["reason"] == "forced down by root"
    assert stage.explain()["next"] == "bilbo", "its score counts twice"

    stage.order(*(Override("drain", f"{name}.hobbit") for name in MEMBERS))
    stage.plan()
    assert stage.explain()["why"] == (
        "the pool fails open (no member is usable): drained as they all are, they take turns"
    )
    stage.order(*(Override("drain", f"{name}.hobbit") for name in MEMBERS[:2]))
    stage.report("gandalf", alarm="hot")
    stage.plan()
    assert stage.explain()["why"].endswith("all that are not drained take turns")
    assert stage.members()["gandalf"]["probability"] == 1


def overloaded(*alarmed: str) -> Stage:
    """Twenty seconds of so many answers that it takes all three, and then these give an alarm."""
    stage = Stage()
    for second in range(21):
        stage.now += 1.0
        metrics = {
            "requests_total": 95.0 * second, "httpd_cpu_seconds": 0.95 * second, "cpu_count": 1.0,
            "requests_per_s": 95.0, "busy_workers": 5.0, "listen_queue": 0.0,
        }  # fmt: skip
        for name in MEMBERS:
            alarm = "listen_queue 300 > 256" if name in alarmed and second == 20 else ""
            stage.report(name, metrics=metrics, alarm=alarm)
        stage.plan()
        stage.ask(times=285)
    return stage


def test_who_gives_an_alarm_and_is_needed() -> None:
    stage = overloaded("frodo")
    told = stage.members()["frodo"]
    assert (told["state"], told["reason"], told["candidate"]) == ("alarm", "alarm: listen_queue 300 > 256", True)
    assert told["guard"] == "needed, but: it gives an alarm (listen_queue 300 > 256), since 0 s"
    assert told["probability"] == pytest.approx(1 / 3, abs=0.1)


def test_all_give_an_alarm_and_are_weighed() -> None:
    stage = overloaded(*MEMBERS)
    assert stage.explain()["why"] == f"the pool fails open (no member is usable): {WHY['best']}"
    assert stage.explain("round-robin")["why"].endswith("all that are not drained take turns")


def test_forced_up_before_any_report() -> None:
    stage = Stage()
    stage.order(Override("up", "frodo.hobbit", by="root"))
    stage.plan()
    for owner in OWNERS:
        told = stage.explain(owner)
        assert (told["next"], told["why"]) == ("frodo", "no other member can be handed out")
        assert stage.members(owner)["frodo"]["reason"] == "forced up by root"


def failing() -> Stage:
    """gandalf takes hand-outs, serves nothing, and its errors rise."""
    stage = Stage()
    for second in range(6):
        stage.now += 1
        for name in MEMBERS:
            served = 100.0 if name == "gandalf" else 100.0 * second
            metrics = {"busy_workers": 0.0, "requests_total": served, "requests_per_s": 100.0, "errors_total": second}
            stage.report(name, metrics=metrics)
        stage.plan()
        stage.ask("round-robin", 6)
    return stage


def test_probes_are_told() -> None:
    stage = failing()
    gandalf = stage.members()["gandalf"]
    assert gandalf["guard"].startswith("quarantined: it serves no requests, and its errors rise, since ")
    assert (gandalf["state"], gandalf["candidate"], gandalf["probability"]) == ("usable", False, 0)
    until = stage.now + FIRST_PROBE + 1
    while stage.now < until and stage.explain("weighted")["next"] != "gandalf":
        stage.now += 0.5
        stage.report("bilbo", "frodo", metrics={"busy_workers": 0.0, "requests_total": 1000.0 + stage.now})
        stage.report("gandalf", metrics={"busy_workers": 0.0, "requests_total": 100.0, "errors_total": 5.0})
        stage.plan()
    why = (
        "a probe: something speaks against it (it serves no requests, and its errors rise), and a hand-out shows "
        "whether that is still so"
    )
    for owner in OWNERS:
        told = stage.explain(owner)
        assert (told["next"], told["why"]) == ("gandalf", why)
        assert stage.members(owner)["gandalf"]["probability"] > 0
    allowed = stage.explain()["answers_allowed"]
    assert stage.ask(times=1) == ["gandalf"]
    told = stage.explain()
    assert told["why"].startswith(FEW)
    assert told["answers_allowed"] == allowed, "a probe is none of the few"
    assert stage.members()["gandalf"]["probability"] == 0


def test_who_comes_back_is_ramped_up() -> None:
    stage = ready()
    for _ in range(4):
        stage.now += 1
        stage.report("bilbo", "frodo")
        stage.plan()
    assert stage.members()["gandalf"]["state"] == "silent"
    stage.now += 5
    stage.report()
    stage.plan()
    gandalf = stage.members("weighted")["gandalf"]
    assert (gandalf["ramp"], gandalf["guard"]) == (0.1, "ramp 10%")
    assert gandalf["probability"] == pytest.approx(0.1 / 2.1, abs=0.02)


@pytest.mark.parametrize("value", [1e308, 1.7e308, 1e15, 1e-100, 5e-324])
def test_json_has_words_for_whatever_an_agent_reports(value: float) -> None:
    stage = ready()
    stage.report(metrics={"cpu_count": value, "busy_workers": value, "requests_per_s": value}, interval=86400.0)
    stage.plan()
    for owner in OWNERS:
        stage.ask(owner, 2)
        assert stage.explain(owner)["next"] in MEMBERS  # ``Stage.explain`` writes it as JSON


# Names

ROOT = "$TTL 60\n@ SOA ns. host. 1 60 60 60 60\n@ NS ns.\nns A 127.0.0.1\nsam A 127.0.0.2\n"
FARM = make_farm(
    {"hobbit": HOBBIT, "": ROOT, "shire": HOBBIT},
    [
        pool(),
        pool("apex", names={"@": "best", "low.best": "weighted"}),
        pool("other", "shire", names={"best": "best", "lone": "best"}),
        pool("top", "", ["sam"], names={"@": "best", "alone": "best"}),
    ],
)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("best.hobbit", ("web", "best")),
        ("BEST.Hobbit.", ("web", "best")),
        ("round.robin", ("web", "round.robin")),
        ("Round.Robin.hobbit", ("web", "round.robin")),
        ("round.robin.", None),
        ("hobbit", ("apex", "@")),
        ("hobbit.", ("apex", "@")),
        ("low.best.hobbit", ("apex", "low.best")),
        ("best.shire", ("other", "best")),
        ("lone", ("other", "lone")),
        ("best", None),
        ("@", None),
        (".", ("top", "@")),
        ("alone", ("top", "alone")),
        ("alone.", ("top", "alone")),
        ("", None),
        ("..", None),
        ("best..", None),
        ("gandalf.hobbit", None),
        ("explain.best.hobbit", None),
        ("bäst.hobbit", None),
    ],
)
def test_a_name_is_found(name: str, found: tuple[str, str] | None) -> None:
    owner = find_owner(FARM, name)
    assert (owner and (owner[0].name, owner[1])) == found
    if owner and found:
        assert find_owner(FARM, f"{full_owner(*owner).removesuffix('.')}.") == owner


def test_an_unknown_name() -> None:
    assert unknown_name(FARM, "Best") == "'Best' is a name in several zones: best.hobbit, best.shire; write it in full"
    assert unknown_name(FARM, "besd.hobbit") == "no pool is asked by 'besd.hobbit'. Perhaps you meant 'best.hobbit'?"
    assert unknown_name(FARM, "bset") == "no pool is asked by 'bset'. Perhaps you meant 'best'?"
    assert unknown_name(FARM, "x") == (
        "no pool is asked by 'x'; known: best.hobbit, round.robin.hobbit, weighted.hobbit, hobbit, low.best.hobbit, "
        "best.shire, lone.shire, ., alone"
    )
    many = hobbit(pool(names={f"n{number}": "best" for number in range(1000)}))
    assert unknown_name(many, "x").endswith(" ...")
    assert len(unknown_name(many, "x")) < 350
    assert unknown_name(make_farm({"hobbit": HOBBIT}), "x") == "no pool is asked by 'x'"


def test_two_hundred_members_are_explained() -> None:
    stage = Stage([f"m{number}" for number in range(200)])
    stage.order(*(Override("weight", f"m{number}.hobbit", factor=2.0) for number in range(100)))
    for _ in range(3):
        stage.now += 1
        stage.report(metrics={"busy_workers": 3.0, "requests_per_s": 5.0, "cpu_count": 2.0, "cpu_idle": 50.0})
        stage.plan()
        stage.ask("weighted", 300)
    told = stage.explain("weighted")
    assert [member["name"] for member in told["members"]] == [f"m{number}" for number in range(200)]
    assert told["plan"]["given"] == 300
