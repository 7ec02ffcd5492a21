"""Symptoms of members that are needed: a member is quarantined only if the other members can take over its load."""

from __future__ import annotations

import pytest

from lbdns.model.overrides import NO_POOL_OVERRIDES
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.policies import POLICIES
from tests.choosing.guard_rails.guarded_pool import Pool
from tests.policies.views import steered


def test_a_crowd_before_its_death_keeps_nobody_in_a_rotation() -> None:
    """The requests that the member counted before it failed say nothing about the requests that it receives now."""
    pool = Pool(policies=("round_robin",))
    pool.cost["c"] = 0.001  # a strong one
    pool.load, pool.more["c"] = 0.4, 900.0
    pool.run(10)
    pool.more["c"] = 0.0
    pool.run(10)
    pool.mute.add("c")
    pool.run(4)
    assert pool.quarantined == ["c"]
    assert pool.served(10)["c"] == 0


def alarmed(load: float) -> Pool:
    """Return a pool whose member c is overloaded while all members run at the given utilisation."""
    pool = Pool()
    pool.load = load
    pool.run(20, 300)
    pool.alarms = {"c": "listen_queue 300 > 256"}
    pool.run(1, 300)
    return pool


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_an_alarm_is_heard_when_the_others_have_room(policy: str) -> None:
    pool = Pool(policies=(policy,))
    pool.load = 0.4
    pool.run(20, 120)
    pool.alarms = {"c": "mem_available 1 < 2"}
    pool.run(1, 120)
    assert pool.served(5, 120)["c"] == 0
    assert pool.guards == {}


def test_an_alarm_is_not_heard_when_the_others_can_not_carry_what_comes() -> None:
    pool = alarmed(0.9)
    assert pool.chooser.liveness.states == ("usable", "usable", "alarm"), "the state follows the reports"
    assert pool.chooser.liveness.candidates == (0, 1, 2)
    assert pool.guards == {"c": "needed although it is in alarm (listen_queue 300 > 256), for 0 s"}
    assert pool.served(5, 300)["c"] == pytest.approx(500, rel=0.1)
    assert pool.guards["c"].endswith("for 5 s")
    pool.alarms = {}
    pool.run(1, 300)
    assert pool.guards == {}, "it was never away"


def test_whom_a_person_forces_down_is_not_needed_whatever_comes() -> None:
    pool = alarmed(0.9)
    pool.chooser.observe(Snapshot(1, pool.readings), steered(down={"c"}), pool.now)
    assert pool.chooser.liveness.candidates == (0, 1)


@pytest.mark.parametrize(("load", "ramp"), [(0.5, 10), (0.8, 55)])
def test_a_ramp_gives_way_when_the_others_can_not_carry_what_comes(load: float, ramp: int) -> None:
    pool = Pool()
    pool.load = load
    pool.run(40, int(300 * load))
    pool.drained = {"c"}
    pool.run(5, int(300 * load))
    pool.drained = set()
    pool.run(1, int(300 * load))
    found = pool.guards["c"]
    assert found.startswith("ramp ")
    assert float(found[5:-1]) == pytest.approx(ramp, abs=3)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_when_all_look_dead_nobody_is_set_aside(policy: str) -> None:
    pool = Pool(policies=(policy,))
    pool.dead.update("abc")
    pool.run(3)
    assert pool.quarantined == []
    assert not pool.chooser.liveness.fail_open
    assert set(pool.served(30)) == {"a", "b", "c"}


def test_who_dies_one_after_another_is_dead() -> None:
    pool = Pool()
    for name in "ab":
        pool.dead.add(name)
        pool.run(6)
    assert pool.quarantined == ["a", "b"]
    assert set(pool.served(10)) == {"c"}


def test_what_fails_at_once_is_most_likely_the_looking() -> None:
    pool = Pool()
    pool.dead.update("ab")
    pool.run(6)
    assert len(pool.quarantined) == 1, "half of them go on"


def test_pages_that_fail_may_be_switched_off() -> None:
    pool = Pool()
    for name in "ab":
        pool.mute.add(name)
        pool.run(6)
    assert pool.quarantined == ["a"], "half of the members go on, and b is the newer one"
    assert pool.guards["b"].startswith("needed although its server-status page cannot be read, for ")


def test_the_one_that_is_needed_is_still_not_the_best() -> None:
    pool = Pool(policies=("best",))
    pool.dead.update("ab")
    pool.run(20, each=1)
    assert set(pool.served(20, each=1)) == {"c"}


def test_a_rotation_misses_a_strong_member_no_more_than_others() -> None:
    pool = Pool(policies=("round_robin",))
    pool.load, pool.cost["c"] = 0.4, 0.001
    pool.run(60)
    pool.mute.add("c")  # it could do ten times as much as a and b together, but was sent a third
    pool.run(4)
    assert pool.quarantined == ["c"]


@pytest.mark.parametrize(("load", "quarantined"), [(0.3, ["d"]), (0.7, ["d"]), (0.75, []), (0.95, [])])
def test_the_rest_has_to_carry_what_comes(load: float, quarantined: list[str]) -> None:
    pool = Pool(members=4, policies=("best",))
    pool.load = load
    pool.run(60, 300)
    pool.mute.add("d")
    pool.run(3, 300)
    assert pool.quarantined == quarantined
    share = pool.served(1, 300)["d"] / 300
    assert share <= 0.3, "it looks idle, and gets no more than its part of what can't be served anyway"


def test_a_dead_member_is_needed_by_nobody() -> None:
    pool = Pool(members=4, policies=("best",))
    pool.load = 0.95
    pool.run(60, 300)
    pool.dead.add("d")
    pool.run(1, 300)
    assert pool.quarantined == ["d"]
    assert pool.served(5, 300)["d"] == 0


@pytest.mark.parametrize("load", [0.3, 0.9])
def test_a_member_with_an_overdue_report_is_needed_by_nobody(load: float) -> None:
    pool = Pool(members=4, policies=("weighted",))
    pool.load = load
    pool.run(60, 300)
    late = {**pool.readings}
    for _ in range(5):
        pool.now += 0.5
        readings = {n: Reading(pool.now, 1.0, 50, r.metrics) for n, r in pool.readings.items()}
        pool.chooser.observe(Snapshot(1, {**readings, "d": late["d"]}), NO_POOL_OVERRIDES, pool.now)
    plan = pool.chooser.plan("weighted", None, pool.now)
    assert pool.chooser.liveness.states[3] == "usable"
    assert 3 not in plan.order
