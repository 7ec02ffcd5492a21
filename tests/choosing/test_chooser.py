"""The chooser in virtual time: tests deliver snapshots and check the plans."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest

from lbdns.choosing.chooser import Chooser
from lbdns.config.pool_section import MAX_SPEED_GAIN
from lbdns.model.overrides import NO_POOL_OVERRIDES
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.policies import POLICIES
from lbdns.policies.plan import Plan, Selections
from tests.policies.views import hand_out, handed, steered

NAMES = ("a.z", "b.z", "c.z")


def chooser(servers: int = 1, min_usable: float = 0.5, max_speed_gain: float = MAX_SPEED_GAIN) -> Chooser:
    return Chooser(NAMES, 3.0, min_usable, Random(1), servers, max_speed_gain=max_speed_gain)


def snapshot(now: float, **members: Reading) -> Snapshot:
    return Snapshot(1, {f"{name}.z": reading for name, reading in members.items()})


def reading(now: float, score: int = 50, **fields: object) -> Reading:
    metrics = fields.pop("metrics", {"requests_per_s": 100.0, "busy_workers": 1.0})
    return Reading(received=now, interval=1.0, score=score, metrics=metrics, **fields)  # type: ignore[arg-type]


def farm(now: float, scores: tuple[int, int, int] = (50, 60, 70)) -> Snapshot:
    return snapshot(now, **{name: reading(now, score) for name, score in zip("abc", scores, strict=True)})


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_nobody_reports_and_all_take_turns(policy: str) -> None:
    pool = chooser()
    pool.observe(Snapshot(), NO_POOL_OVERRIDES, 0.0)
    assert pool.liveness.fail_open
    assert pool.plan(policy, None, 0.0).order == (0, 1, 2)


@pytest.mark.parametrize("declared", [0.02, 60.0])
@pytest.mark.parametrize("since", ["silent", "alarm"])
def test_beside_two_others_no_member_decides_the_interval(declared: float, since: str) -> None:
    pool = chooser()
    pool.observe(farm(0.0), NO_POOL_OVERRIDES, 0.0)
    for step in range(1, 1000):
        now = step * min(declared, 1.0)
        others = {"b": reading(math.floor(now))}
        others["a"] = reading(0.0) if since == "silent" else reading(math.floor(now), alarm="x")
        liar = Reading(now, declared, 90, {"requests_per_s": 100.0, "busy_workers": 1.0})
        pool.observe(snapshot(now, c=liar, **others), NO_POOL_OVERRIDES, now)
        if now > 15:
            break
    assert pool.liveness.candidates == (1, 2)
    assert pool.view("best", now).interval == pytest.approx(1.0, rel=0.1)


def test_few_ask_and_see_the_highest_score() -> None:
    pool = chooser()
    before: Selections | None = None
    for second in range(40):  # two per second still count as light traffic
        pool.observe(farm(float(second)), NO_POOL_OVERRIDES, float(second))
        plan = pool.plan("best", before, float(second))
        assert hand_out(plan, 2) == [2, 2]
        before = handed(plan, 2)


class Serving:
    """Three single-core members, with different request rates, that can each serve 300 requests per CPU second."""

    def __init__(self) -> None:
        self.done = [0.0, 0.0, 0.0]

    def reports(self, now: float, sent: Sequence[float], scores: tuple[int, int, int] = (50, 60, 70)) -> Snapshot:
        self.done = [done + requests + 1 for done, requests in zip(self.done, sent, strict=True)]  # 1: the agent's
        figures = zip("abc", scores, self.done, sent, strict=True)
        return snapshot(now, **{
            name: reading(now, score, metrics={
                "cpu_count": 1.0, "busy_workers": 1.0, "requests_per_s": requests + 1,
                "requests_total": done, "httpd_cpu_seconds": done / 300,
            })
            for name, score, done, requests in figures
        })  # fmt: skip


def asked_twice_a_second(sent_elsewhere: Sequence[float], an_answer_brings: float) -> list[list[int]]:
    """Return the selections in each of 60 seconds. Each answer causes requests in the following second."""
    pool, serving, before = chooser(), Serving(), None
    sent, told = list(sent_elsewhere), []
    for second in range(60):
        now = float(second)
        pool.observe(serving.reports(now, sent), NO_POOL_OVERRIDES, now)
        plan = pool.plan("best", before, now)
        told.append(hand_out(plan, 2))
        before = handed(plan, 2)
        sent = [usual + an_answer_brings * told[-1].count(i) for i, usual in enumerate(sent_elsewhere)]
    return told


def test_a_crowd_behind_few_answers_is_distributed() -> None:
    """If only the member with the highest score were selected, caching resolvers would send it all requests."""
    late = [member for second in asked_twice_a_second((0, 0, 0), 100)[20:] for member in second]
    counts = Counter(late)
    assert all(counts[i] == pytest.approx(len(late) / 3, rel=0.1) for i in range(3))


def test_a_crowd_behind_long_lived_caches_is_still_a_crowd() -> None:
    """Two resolvers each send a query every 40 s, so most periods of ten seconds contain no query."""
    pool, serving, before = chooser(), Serving(), None
    kept, told = [0, 1], []
    for second in range(400):
        now = float(second)
        pool.observe(serving.reports(now, [100.0 * kept.count(i) for i in range(3)]), NO_POOL_OVERRIDES, now)
        plan = pool.plan("best", before, now)
        asking = 1 if second % 20 == 0 else 0
        if asking:
            kept[second // 20 % 2] = hand_out(plan, 1)[0]
            told.append(kept[second // 20 % 2])
        before = handed(plan, asking)
    # The first answers come before the crowd is known, and the next ones make up for them
    assert all(one != next_ for one, next_ in pairwise(told[4:])), told


def test_after_a_crowd_light_traffic_gets_the_highest_score() -> None:
    """The crowd no longer sends requests, but the moving averages still include past requests."""
    pool, serving, before = chooser(), Serving(), None
    sent = [0.0, 0.0, 0.0]
    for second in range(120):
        now, asking = float(second), 400 if second < 60 else second % 2
        pool.observe(serving.reports(now, sent), NO_POOL_OVERRIDES, now)
        plan = pool.plan("best", before, now)
        order = hand_out(plan, asking)
        if second > 60 + 10:
            assert set(order) <= {2}, f"{second - 60} s after"
        before = handed(plan, asking)
        sent = [float(order.count(i)) if asking > 1 else 0.0 for i in range(3)]


@pytest.mark.parametrize("elsewhere", [(200, 0, 0), (0, 0, 0), (90, 90, 90)])
def test_load_from_elsewhere_does_not_make_traffic_heavy(elsewhere: tuple[float, ...]) -> None:
    assert asked_twice_a_second(elsewhere, 1) == [[2, 2]] * 60


def test_heavy_traffic_is_distributed() -> None:
    pool = chooser()
    before: Selections | None = None
    counts: Counter[int] = Counter()
    for second in range(40):
        pool.observe(farm(float(second)), NO_POOL_OVERRIDES, float(second))
        plan = pool.plan("best", before, float(second))
        order = hand_out(plan, 100)
        if second >= 20:
            counts.update(order)
        before = handed(plan, 100)
    assert all(counts[i] == pytest.approx(2000 / 3, rel=0.05) for i in range(3))


def test_several_servers_share_the_light_traffic_limit() -> None:
    pool = chooser(servers=4)
    pool.observe(farm(0.0), NO_POOL_OVERRIDES, 0.0)
    plan = pool.plan("best", None, 0.0)
    assert plan.repeat_from == 5 + 1  # a quarter of 20, and of an interval's


def test_a_member_becomes_silent_by_time_alone() -> None:
    pool = chooser(min_usable=0.0)
    assert pool.observe(farm(0.0), NO_POOL_OVERRIDES, 0.0)
    fresh = Snapshot(2, {**farm(2.5).readings, "c.z": farm(0.0).readings["c.z"]})
    pool.observe(fresh, NO_POOL_OVERRIDES, 2.5)
    assert pool.next_change == pytest.approx(3.0)
    assert not pool.observe(fresh, NO_POOL_OVERRIDES, 2.9)
    assert pool.observe(fresh, NO_POOL_OVERRIDES, 3.0)
    assert pool.liveness.states == ("usable", "usable", "silent")
    assert set(pool.plan("round_robin", None, 3.0).order) == {0, 1}


def test_overdue_comes_before_silent_and_requires_a_new_plan() -> None:
    pool = chooser()
    pool.observe(farm(0.0), NO_POOL_OVERRIDES, 0.0)
    late = Snapshot(2, {**farm(1.5).readings, "c.z": farm(0.0).readings["c.z"]})
    pool.observe(late, NO_POOL_OVERRIDES, 1.5)
    assert pool.next_change == pytest.approx(2.0)
    assert pool.observe(late, NO_POOL_OVERRIDES, 2.0)
    busy = handed(pool.plan("best", None, 2.0), 1000)
    assert set(hand_out(pool.plan("best", busy, 2.0), 500)) == {0, 1}


def test_drained_and_alarmed_members_get_nothing() -> None:
    pool = chooser(min_usable=0.0)
    members = farm(0.0).readings
    pool.observe(Snapshot(1, {**members, "a.z": reading(0.0, alarm="run_queue")}), steered(drained=["b.z"]), 0.0)
    assert pool.liveness.states == ("alarm", "drained", "usable")
    assert set(pool.plan("weighted", None, 0.0).order) == {2}


def test_a_bye_takes_a_member_out_at_once() -> None:
    pool = chooser()
    pool.observe(farm(0.0), NO_POOL_OVERRIDES, 0.0)
    pool.observe(Snapshot(2, {**farm(0.5).readings, "c.z": reading(0.5, gone=True)}), NO_POOL_OVERRIDES, 0.5)
    assert pool.liveness.states[2] == "silent"
    assert not pool.liveness.fail_open


def test_reports_that_stop_all_at_once_fail_open() -> None:
    pool = chooser()
    pool.observe(farm(0.0), NO_POOL_OVERRIDES, 0.0)
    only_a = Snapshot(2, {**farm(0.0).readings, "a.z": reading(4.0)})
    pool.observe(only_a, NO_POOL_OVERRIDES, 4.0)
    assert pool.liveness.states == ("usable", "silent", "silent")
    assert pool.liveness.fail_open
    assert pool.plan("best", None, 4.0).order == (0, 1, 2)


def test_capacity_is_learned_from_reports() -> None:
    pool = chooser()
    plan: Plan | None = None
    for second in range(60):
        now = float(second)
        served = {"a": 10.0, "b": 10.0, "c": 10.0}
        cost = {"a": 0.01, "b": 0.01, "c": 0.04}
        pool.observe(
            snapshot(
                now,
                **{
                    name: reading(
                        now,
                        metrics={
                            "requests_total": served[name] * second,
                            "httpd_cpu_seconds": served[name] * second * cost[name],
                            "cpu_count": 1.0,
                        },
                    )
                    for name in "abc"
                },
            ),
            NO_POOL_OVERRIDES,
            now,
        )
        plan = pool.plan("weighted", handed(plan, 30) if plan else None, now)
    assert plan
    assert plan.weights[0] == pytest.approx(plan.weights[1])
    assert plan.weights[0] / plan.weights[2] == pytest.approx(4.0, rel=0.25)


def all_overloaded(policy: str, answers: int) -> tuple[Chooser, Plan]:
    """Return the plan after 20 s. All members are in alarm; member a has four times the capacity of b or c."""
    pool = chooser(max_speed_gain=4.0)
    plan: Plan | None = None
    for second in range(20):
        now = float(second)
        readings = {
            name: reading(
                now,
                alarm="listen_queue 300 > 256" if second == 19 else "",
                metrics={
                    "requests_total": strength * 100.0 * second, "httpd_cpu_seconds": 1.0 * second, "cpu_count": 1.0,
                    "busy_workers": 50.0, "listen_queue": 300.0 * strength,
                },
            )
            for name, strength in (("a", 4.0), ("b", 1.0), ("c", 1.0))
        }  # fmt: skip
        pool.observe(snapshot(now, **readings), NO_POOL_OVERRIDES, now)
        plan = pool.plan(policy, handed(plan, answers) if plan else None, now)
    assert plan
    return pool, plan


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_with_all_overloaded_policies_that_weigh_load_still_do(policy: str) -> None:
    """The load of every member is still known while all members are in alarm."""
    pool, plan = all_overloaded(policy, 600)
    assert pool.liveness.fail_open == "no member is usable"
    if policy in ("best", "weighted"):
        assert plan.weights[0] == pytest.approx(4 / 6, abs=0.1)
    else:
        assert sorted(plan.order) == [0, 1, 2]
        assert not plan.weights


def test_with_all_overloaded_and_light_traffic_all_take_turns() -> None:
    _, plan = all_overloaded("best", 1)
    assert sorted(plan.order) == [0, 1, 2]


def loads_of(pool: Chooser, now: float) -> tuple[float, ...]:
    return tuple(member.load for member in pool.view("best", now).members)


def test_missing_busy_workers_keep_their_last_value_for_a_while() -> None:
    pool = chooser()

    def hear(now: float, **a: float) -> None:
        idle = {"busy_workers": 1.0, "run_queue": 0.0}
        told = {"a": reading(now, metrics=a), "b": reading(now, metrics=idle), "c": reading(now, metrics=idle)}
        pool.observe(snapshot(now, **told), NO_POOL_OVERRIDES, now)

    hear(0.0, busy_workers=64.0, run_queue=17.0)
    hear(1.0, run_queue=17.0)
    assert loads_of(pool, 1.0) == (64.0, 1.0, 1.0)
    hear(2.0, run_queue=70.0)
    assert loads_of(pool, 2.0)[0] == 70.0
    hear(10.0, run_queue=17.0, listen_queue=30.0)
    assert loads_of(pool, 10.0)[0] == 94.0
    hear(10.5, run_queue=17.0)
    assert loads_of(pool, 10.5)[0] == 17.0
    hear(11.0, run_queue=17.0, busy_workers=20.0)
    hear(12.0, run_queue=17.0)
    assert loads_of(pool, 12.0)[0] == 20.0


def test_the_first_seconds_do_not_look_like_persistent_clients() -> None:
    """At 100 requests/s and 100 answers/s, the estimate is one request per answer, even in the first ten seconds."""
    pool = chooser()
    before: Selections | None = None
    for step in range(1, 40):
        now = 1000.0 + step / 10
        metrics = {"requests_per_s": 100 / 3, "busy_workers": 1.0}
        pool.observe(snapshot(now, **{name: reading(now, metrics=metrics) for name in "abc"}), NO_POOL_OVERRIDES, now)
        before = handed(pool.plan("best", before, now), 10)
        if step > 10:
            assert pool.view("best", now).requests_per_answer == pytest.approx(1.0, abs=0.15)


def test_a_crowd_is_detected_within_a_second_in_any_process() -> None:
    mine, other = chooser(servers=2), chooser(servers=2)
    for pool, heard in ((mine, 0), (other, 40)):
        before: Selections | None = None
        for step in range(1, 151):
            now, answers = 1000.0 + step / 10, 5 if step <= 140 else 50
            pool.observe(farm(now), NO_POOL_OVERRIDES, now)
            pool.count_elsewhere("best", heard if step <= 140 else 10 * heard, now)
            before = handed(pool.plan("best", before, now), answers)
            if step not in (1, 141, 142):
                assert pool.view("best", now).crowd_arriving == (step > 142), step
        view = pool.view("best", 1015.0)
        assert view.recent_answers_per_s == pytest.approx(2 * 10 * (50 + 10 * heard), rel=0.2)


def test_a_reload_keeps_what_is_known_of_remaining_members() -> None:
    old, seen = chooser(), farm(0.0)
    old.observe(seen, NO_POOL_OVERRIDES, 0.0)
    new = Chooser(("c.z", "d.z"), 3.0, 0.5, Random(1))
    new.take_over(old)
    assert new.liveness.states == ("usable", "unknown")
    assert not new.observe(seen, NO_POOL_OVERRIDES, 0.1)
    assert new.plan("best", None, 0.1).order[0] == 0


def test_without_readings_nothing_is_due() -> None:
    assert chooser().next_change == math.inf


def test_selections_are_charged_until_the_next_report() -> None:
    pool = chooser()
    begin = farm(0.0)
    pool.observe(begin, NO_POOL_OVERRIDES, 0.0)
    plan = pool.plan("least_charged", None, 0.0)
    pool.observe(Snapshot(2, {**begin.readings, "a.z": reading(0.5)}), NO_POOL_OVERRIDES, 0.5)
    again = pool.plan("least_charged", handed(plan, 30), 0.5)
    # Each member was selected ten times; only a has reported since
    assert hand_out(again, 10) == [0] * 10


def test_charges_include_other_processes_and_servers() -> None:
    pool = chooser(servers=2)
    begin = farm(0.0)
    pool.observe(begin, NO_POOL_OVERRIDES, 0.0)
    plan = pool.plan("least_charged", None, 0.0)
    pool.count_elsewhere(
        "least_charged", 90, 0.4
    )  # this process gives a quarter of this server's answers, which are half of all
    pool.observe(Snapshot(2, {**begin.readings, "a.z": reading(0.5)}), NO_POOL_OVERRIDES, 0.5)
    again = pool.plan("least_charged", handed(plan, 30), 0.5)
    # 30 of its own stand for 240, 80 each; each of the next stands for eight
    assert hand_out(again, 10) == [0] * 10
    assert 1 in hand_out(again, 12)


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize(
    "metrics", [{"cpu_count": 2.3e-308, "run_queue": 40.0}, {"run_queue": 1.7e308}, {"cpu_count": 1.7e308}]
)
def test_one_member_that_reports_nonsense_does_not_spoil_the_pool(policy: str, metrics: dict[str, float]) -> None:
    pool = chooser()
    told = {"a": reading(0.0, metrics=metrics), "b": reading(0.0, metrics={}), "c": reading(0.0, metrics={})}
    pool.observe(snapshot(0.0, **told), NO_POOL_OVERRIDES, 0.0)
    busy = handed(pool.plan(policy, None, 0.0), 300)
    assert {1, 2} <= set(hand_out(pool.plan(policy, busy, 0.1), 300))


def test_readings_recorded_before_the_plan_lead_to_the_same_plan() -> None:
    """Also for a member that stops serving: the guard rails see each of its reports once."""
    at_once, in_parts = chooser(), chooser()
    serving, before = Serving(), None
    for second in range(40):
        now = float(second)
        sent = [40.0, 30.0, 20.0] if second < 20 else [40.0, 30.0, -1.0]
        reports = serving.reports(now, sent)
        if second >= 20:
            waiting = {**reports.readings["c.z"].metrics, "listen_queue": float(second)}
            reports = Snapshot(1, {**reports.readings, "c.z": reading(now, 70, metrics=waiting)})
        plans = []
        for pool in (at_once, in_parts):
            if pool is in_parts:
                assert [pool.observe_some(reports, 2), pool.observe_some(reports, 2)] == [True, False]
            pool.observe(reports, NO_POOL_OVERRIDES, now)
            plans.append(pool.plan("best", before, now))
        assert plans[0] == plans[1]
        assert at_once.guards(now) == in_parts.guards(now)
        before = handed(plans[0], 6)
    assert in_parts.guards(39.0)[2].why, "it is caught"
