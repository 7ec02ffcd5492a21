"""Tests of the members in an explanation: reports, charges, guard rails, overrides and probes."""

from __future__ import annotations

import pytest

from lbdns.choosing.guard_rails.black_hole import FIRST_PROBE
from lbdns.model.overrides import Override
from lbdns.policies import POLICIES
from lbdns_shared.report import WEB_SERVER_FAILED
from tests.answering.farms import MEMBERS
from tests.planning.stage import OWNERS, Stage, ready


def test_metrics_and_score_parts() -> None:
    stage = ready()
    stage.now += 1.5
    stage.report("bilbo", metrics={"busy_workers": 4.0, "cpu_count": 8.0}, score=47)
    stage.plan()
    members = stage.members()
    assert members["bilbo"]["metrics"] == {"busy_workers": 4.0, "cpu_count": 8.0}
    assert (members["bilbo"]["age_s"], members["frodo"]["age_s"]) == (0, 1.5)
    assert members["bilbo"]["score_parts"] == {"busy_workers": 47.0}
    assert members["frodo"]["score_parts"] == {}, "they do not add up to its score"
    assert (members["bilbo"]["load"], members["bilbo"]["cores"]) == (4.0, 8.0)
    assert members["bilbo"]["capacity_share"] == pytest.approx(8 / 24)
    assert members["bilbo"]["addresses"] == ["127.0.0.16"]
    assert members["gandalf"]["addresses"] == ["127.0.0.18", "127.0.0.19", "::18", "::19"]


def test_charges_and_credits_follow_selections() -> None:
    stage = ready(servers=2)
    stage.ask("weighted", 4)
    for member in stage.members("weighted").values():
        count = member["answers"]
        assert member["charge"] == 2 * count, "the other server gave as many"
        assert member["share"] == pytest.approx(count / 4)
        assert member["credit"] == pytest.approx(4 / 3 - count, abs=0.01)
    before = stage.members("weighted")
    stage.now += 1
    stage.report("bilbo")
    stage.plan()
    after = stage.members("weighted")
    assert after["bilbo"]["charge"] == 0, "its report shows their effect"
    assert after["frodo"]["charge"] == before["frodo"]["charge"] > 0
    assert after["frodo"]["credit"] == before["frodo"]["credit"]


def test_members_that_are_not_candidates_have_a_reason() -> None:
    stage = ready()
    stage.report("bilbo", alarm="disk full")
    stage.report("gandalf", gone=True)
    stage.now += 2
    stage.report("frodo", score=60)
    stage.plan()
    for owner in OWNERS:
        assert stage.explain(owner)["why"] == "no other member can be selected"
    members = stage.members()
    assert (members["bilbo"]["state"], members["bilbo"]["reason"]) == ("alarm", "alarm: disk full")
    assert (members["gandalf"]["state"], members["gandalf"]["reason"]) == ("silent", "its agent stopped 2.0 s ago")
    assert [name for name in members if members[name]["candidate"]] == ["frodo"]
    stage.now += 60
    assert stage.members()["gandalf"]["reason"] == "its agent stopped 62 s ago"


def test_overdue_members_get_no_share() -> None:
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


def test_overrides_are_shown() -> None:
    stage = ready()
    drain = Override("drain", "bilbo.hobbit", by="root", reason="new kernel", since=5.0)
    weight = Override("weight", "gandalf.hobbit", "web", 0.25, "sam")
    stage.order(drain, weight, Override("up", "frodo.hobbit"), Override("drain", "frodo.hobbit", "other"))
    stage.plan()
    bilbo, frodo, gandalf = stage.members("weighted").values()
    assert (bilbo["state"], bilbo["reason"], bilbo["candidate"]) == ("drained", "drained by root: new kernel", False)
    assert bilbo["overrides"] == [drain.document()]
    assert (frodo["state"], frodo["reason"], frodo["weight"]) == ("usable", "forced up", 1.0)
    assert [override["kind"] for override in frodo["overrides"]] == ["up"], "the other override is for another pool"
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
        "the pool fails open (no member is usable): all members are drained and take turns"
    )
    stage.order(*(Override("drain", f"{name}.hobbit") for name in MEMBERS[:2]))
    stage.report("gandalf", alarm="hot")
    stage.plan()
    assert stage.explain()["why"].endswith("all members that are not drained take turns")
    assert stage.members()["gandalf"]["probability"] == 1


def overloaded(*alarmed: str, failed: str = "") -> Stage:
    """Return a ``Stage`` with the members ``alarmed`` in alarm, after twenty seconds of load that needs all members.

    The web server of the member ``failed`` has failed.
    """
    stage = Stage()
    for second in range(21):
        stage.now += 1.0
        metrics = {
            "requests_total": 95.0 * second, "httpd_cpu_seconds": 0.95 * second, "cpu_count": 1.0,
            "requests_per_s": 95.0, "busy_workers": 5.0, "listen_queue": 0.0,
        }  # fmt: skip
        for name in MEMBERS:
            alarm = "listen_queue 300 > 256" if name in alarmed and second == 20 else ""
            alarm = WEB_SERVER_FAILED if name == failed and second == 20 else alarm
            stage.report(name, metrics=metrics, alarm=alarm)
        stage.plan()
        stage.ask(times=285)
    return stage


def test_a_member_needed_despite_its_alarm() -> None:
    stage = overloaded("frodo")
    told = stage.members()["frodo"]
    assert (told["state"], told["reason"], told["candidate"]) == ("alarm", "alarm: listen_queue 300 > 256", True)
    assert told["guard"] == "needed although it is in alarm (listen_queue 300 > 256), for 0 s"
    assert told["probability"] == pytest.approx(1 / 3, abs=0.1)


def test_a_failed_web_server_is_never_needed() -> None:
    stage = overloaded(failed="frodo")
    told = stage.members()["frodo"]
    assert (told["state"], told["reason"], told["candidate"]) == ("alarm", f"alarm: {WEB_SERVER_FAILED}", False)
    assert (told["guard"], told["probability"]) == ("", 0)
    stage = overloaded("gandalf", "bilbo", failed="frodo")
    assert stage.explain()["why"] == f"the pool fails open (no member is usable): {POLICIES['best'].why}"
    assert [member["candidate"] for member in stage.members().values()].count(True) == 2
    assert stage.members()["frodo"]["probability"] == 0


def test_with_all_in_alarm_members_are_weighed() -> None:
    stage = overloaded(*MEMBERS)
    assert stage.explain()["why"] == f"the pool fails open (no member is usable): {POLICIES['best'].why}"
    assert stage.explain("round-robin")["why"].endswith("all members that are not drained take turns")


def test_forced_up_before_any_report() -> None:
    stage = Stage()
    stage.order(Override("up", "frodo.hobbit", by="root"))
    stage.plan()
    for owner in OWNERS:
        told = stage.explain(owner)
        assert (told["next"], told["why"]) == ("frodo", "no other member can be selected")
        assert stage.members(owner)["frodo"]["reason"] == "forced up by root"


def failing() -> Stage:
    """Return a ``Stage`` in which gandalf is selected but serves no requests, and its error count increases."""
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


def test_probes() -> None:
    stage = failing()
    gandalf = stage.members()["gandalf"]
    assert gandalf["guard"].startswith("quarantined: it serves no requests, and its errors are rising, for ")
    assert (gandalf["state"], gandalf["candidate"], gandalf["probability"]) == ("usable", False, 0)
    until = stage.now + FIRST_PROBE + 1
    while stage.now < until and stage.explain("weighted")["next"] != "gandalf":
        stage.now += 0.5
        stage.report("bilbo", "frodo", metrics={"busy_workers": 0.0, "requests_total": 1000.0 + stage.now})
        stage.report("gandalf", metrics={"busy_workers": 0.0, "requests_total": 100.0, "errors_total": 5.0})
        stage.plan()
    why = (
        "a probe: the member seems to have failed (it serves no requests, and its errors are rising), and this answer "
        "tests whether it works again"
    )
    for owner in OWNERS:
        told = stage.explain(owner)
        assert (told["next"], told["why"]) == ("gandalf", why)
        assert stage.members(owner)["gandalf"]["probability"] > 0
    allowed = stage.explain()["answers_allowed"]
    assert stage.ask(times=1) == ["gandalf"]
    told = stage.explain()
    assert told["why"].startswith("traffic is light: ")
    assert told["answers_allowed"] == allowed, "a probe does not count"
    assert stage.members()["gandalf"]["probability"] == 0


def test_a_returning_member_is_in_slow_start() -> None:
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
def test_any_reported_value_can_be_written_as_json(value: float) -> None:
    stage = ready()
    stage.report(metrics={"cpu_count": value, "busy_workers": value, "requests_per_s": value}, interval=86400.0)
    stage.plan()
    for owner in OWNERS:
        stage.ask(owner, 2)
        assert stage.explain(owner)["next"] in MEMBERS  # ``Stage.explain`` writes it as JSON


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
