"""Guard rails in the chooser: members are quarantined, probed, slow-started, and released."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lbdns.choosing.chooser import Chooser
from lbdns.choosing.guard_rails.black_hole import FIRST_PROBE
from lbdns.choosing.guard_rails.guard_rails import NO_GUARD
from lbdns.choosing.guard_rails.slow_start import FLOOR
from lbdns.model.overrides import NO_POOL_OVERRIDES
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.policies import POLICIES
from lbdns.policies.plan import Plan, PolicySpec, PoolView, Selections, rotation
from lbdns_shared.report import WEB_SERVER_FAILED
from tests.choosing.guard_rails.guarded_pool import Pool


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("each", [1, 100])
def test_a_dead_web_server_with_a_live_agent_is_handed_out_no_more(policy: str, each: int) -> None:
    pool = Pool(policies=(policy,))
    pool.dead.add("c")
    pool.run(1, each)
    assert pool.quarantined == ["c"], "one report is enough"
    assert pool.chooser.liveness.states[2] == "usable", "the state follows the reports"
    assert pool.served(60, each)["c"] == 0
    assert pool.guards == {"c": "quarantined: nothing listens on its server-status port, for 60 s"}
    pool.dead.clear()
    pool.run(2, each)
    assert pool.guards == {"c": "ramp 10%"}
    pool.run(10, each)
    assert pool.guards == {}
    assert pool.chooser.guards(pool.now) == (NO_GUARD,) * 3


def test_policies_see_how_far_a_ramp_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def spy(view: PoolView, handed: Selections | None, chance: Random) -> Plan:
        seen.append(view.members[2].ramp)
        assert [member.ramp for member in view.members[:2]] == [1.0, 1.0]
        return rotation(view.candidates, handed)

    monkeypatch.setitem(POLICIES, "spy", PolicySpec("spy", spy, why="a test"))
    pool = Pool(policies=("spy",))
    pool.dead.add("c")
    pool.run(5)
    pool.dead.clear()
    pool.run(1)
    seen.clear()
    pool.run(12)
    assert seen == pytest.approx([min(1.0, FLOOR + (1 - FLOOR) * second / 10) for second in range(12)])


def test_ramps_go_on_without_reports() -> None:
    pool = Pool()
    pool.drained.add("c")
    pool.run(2)
    pool.drained.clear()
    pool.tick()
    assert pool.guards == {"c": "ramp 10%"}
    assert pool.chooser.next_change == pytest.approx(pool.now + 1.0)
    pool.now += 1.0
    assert pool.chooser.observe(Snapshot(1, pool.readings), NO_POOL_OVERRIDES, pool.now), "a plan is due"
    assert pool.guards == {"c": "ramp 19%"}


@pytest.mark.parametrize("how", ["alarm", "drained"])
def test_whoever_was_out_is_ramped(how: str) -> None:
    pool = Pool()
    pool.alarms = {"c": "load1 > 9"} if how == "alarm" else {}
    pool.drained = {"c"} if how == "drained" else set()
    pool.run(2)
    assert pool.served(5)["c"] == 0
    assert pool.guards == {}, "its state is reason enough"
    pool.alarms, pool.drained = {}, set()
    pool.run(1)
    assert pool.guards == {"c": "ramp 10%"}


@pytest.mark.parametrize(("alarm", "ramped"), [("load1 > 9", False), (WEB_SERVER_FAILED, True)])
def test_a_busy_server_is_still_warm_and_a_restarted_one_is_not(alarm: str, ramped: bool) -> None:
    pool = Pool()
    pool.alarms = {"c": alarm}
    pool.run(2)
    pool.alarms = {}
    pool.run(1)
    assert pool.guards == {"c": "ramp 10%"}
    pool.run(5)
    assert bool(pool.guards) == ramped


def test_who_dies_during_an_alarm_is_quarantined_after_it() -> None:
    pool = Pool()
    pool.alarms = {"c": "load1 > 9"}
    pool.dead.add("c")
    pool.run(10)
    assert pool.quarantined == []
    pool.alarms = {}
    pool.run(2)
    assert pool.quarantined == ["c"]


def test_errors_quarantine_and_a_probe_releases() -> None:
    pool = Pool(policies=("round_robin", "best"))
    for _ in range(3):
        pool.errors["c"] += 1
        pool.run(1)
    assert pool.quarantined == ["c"]
    pool.gets.clear()
    began = pool.now
    while not pool.gets["c"]:
        pool.errors["c"] += 1
        assert pool.now - began <= FIRST_PROBE + 1
        pool.run(1)
    assert pool.gets["c"] == 2, "one of each policy"
    pool.errors["c"] += 1
    assert pool.served(3)["c"] == 0, "the probe found it as bad as before"
    pool.run(5)
    assert pool.quarantined == ["c"]
    pool.run(20)
    assert pool.quarantined == [], "no error after the next probe"


def test_a_probe_changes_no_rotation() -> None:
    pool = Pool(members=4, policies=("round_robin",))
    for _ in range(3):
        pool.errors["d"] += 1
        pool.run(1)
    assert pool.quarantined == ["d"]
    order: list[int] = []
    for _ in range(100):
        pool.errors["d"] += 1
        pool.now += 0.5
        pool.tick(1)
        order.append(pool.last.order[0])
    assert order.count(3) in range(2, 6)
    rest = [i for i in order if i != 3]
    assert all((after - before) % 3 == 1 for before, after in pairwise(rest))


def test_a_probe_is_due_without_reports() -> None:
    pool = Pool()
    pool.interval = 30.0
    for _ in range(3):
        pool.errors["c"] += 1
        pool.run(1)
    assert pool.quarantined == ["c"]
    due = pool.chooser.next_change
    assert pool.now < due <= pool.now + FIRST_PROBE
    pool.now = due
    assert pool.chooser.observe(Snapshot(1, pool.readings), NO_POOL_OVERRIDES, pool.now), "a plan is due"
    assert pool.chooser.plan("best", None, pool.now).order[0] == 2


def test_it_can_be_switched_off() -> None:
    pool = Pool(policies=("round_robin",), black_hole=False, ramp_up=0.0)
    pool.dead.add("c")
    pool.run(10)
    assert pool.quarantined == []
    pool.drained.add("b")
    pool.run(2)
    pool.drained.clear()
    pool.run(1)
    assert pool.guards == {}


def test_a_reload_forgets_no_quarantine() -> None:
    pool = Pool()
    pool.dead.add("c")
    pool.run(3)
    old, pool.chooser = pool.chooser, pool.new()
    pool.chooser.take_over(old)
    assert pool.quarantined == ["c"]
    pool.tick()
    assert pool.served(5)["c"] == 0
    assert pool.quarantined == ["c"]


def test_who_says_goodbye_may_come_back_without_server_status() -> None:
    pool = Pool()
    gone = {**pool.readings, "c": Reading(pool.now + 0.5, 1.0, 50, {}, gone=True)}
    pool.chooser.observe(Snapshot(1, gone), NO_POOL_OVERRIDES, pool.now + 0.5)
    pool.dead.add("c")
    pool.run(10)
    assert pool.quarantined == []


EVENTS = st.lists(
    st.tuples(st.sampled_from(["dead", "mute", "drained", "alarm", "errors"]), st.sampled_from("abcd")), max_size=25
)


@settings(max_examples=40, deadline=None)
@given(EVENTS, st.sampled_from(sorted(POLICIES)), st.floats(0, 1), st.sampled_from([1, 40]))
@example([("errors", "a"), ("errors", "a")], "best_score", 1.0, 1)  # needed, but never selected or probed
def test_whatever_happens_somebody_is_handed_out_and_all_come_back(
    events: list[tuple[str, str]], policy: str, min_usable: float, each: int
) -> None:
    pool = Pool(members=4, policies=(policy,), min_usable=min_usable)
    for what, name in events:
        if what == "alarm":
            pool.alarms = {} if pool.alarms else {name: "load1 > 9"}
        elif what == "errors":
            pool.errors[name] += 1
        else:
            there: set[str] = getattr(pool, what)
            there.symmetric_difference_update(name)
        pool.run(1, each)
        candidates = pool.chooser.liveness.candidates
        assert candidates, "never all are set aside"
        assert set(pool.quarantined) <= {pool.names[i] for i in range(4) if i not in candidates}
        if not pool.chooser.liveness.fail_open:
            usable = [i for i, state in enumerate(pool.chooser.liveness.states) if state == "usable"]
            assert set(candidates) <= set(usable)
            assert all(FLOOR <= guard.ramp <= 1 for guard in pool.chooser.guards(pool.now))
    pool.dead.clear()
    pool.mute.clear()
    pool.drained.clear()
    pool.alarms.clear()
    pool.run(120, each)
    assert pool.guards == {}, "all are back"


@pytest.mark.parametrize("interval", [1.0, 60.0])
def test_a_long_interval_of_one_member_changes_no_other_member_s_slow_start(interval: float) -> None:
    chooser = Chooser(("a", "b", "c"), 3.0, 0.5, Random(1), ramp_up=10.0)
    readings = {"a": Reading(100.0, interval, 50), "b": Reading(100.0, 1.0, 50)}
    chooser.observe(Snapshot(1, readings), NO_POOL_OVERRIDES, 100.0)
    assert not chooser.liveness.fail_open
    late = {"a": Reading(130.0, interval, 50), "b": Reading(130.0, 1.0, 50), "c": Reading(130.0, 1.0, 50)}
    chooser.observe(Snapshot(2, late), NO_POOL_OVERRIDES, 130.0)
    assert [guard.ramp for guard in chooser.guards(130.0)] == [1.0, 1.0, FLOOR]


@pytest.mark.parametrize(
    ("sites", "quarantined"),
    [
        pytest.param((), [], id="without sites, half of all members must stay in use"),
        pytest.param(((0, 1), (2, 3)), ["a"], id="with sites, half of the members of living sites"),
        pytest.param(((0, 2), (1, 3)), [], id="both sites live"),
    ],
)
def test_the_members_of_a_dead_site_need_no_replacement(
    sites: tuple[tuple[int, ...], ...], quarantined: list[str]
) -> None:
    pool = Pool(members=4, sites=sites)
    pool.unreachable |= {"c", "d"}
    pool.run(4)
    assert pool.chooser.liveness.states[2:] == ("silent", "silent")
    pool.mute.add("a")
    pool.run(4)
    assert pool.quarantined == quarantined
