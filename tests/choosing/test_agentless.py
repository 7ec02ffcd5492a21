"""Members without an agent, and configured weights, in the chooser and the policies. In virtual time."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from lbdns.choosing.chooser import Chooser
from lbdns.model.overrides import PoolOverrides
from lbdns.model.snapshot import FailedCheck, Reading, Snapshot
from lbdns.policies import POLICIES
from tests.policies.views import hand_out, handed

NAMES = ("a.z", "b.z", "c.z")
EVERY_POLICY = pytest.mark.parametrize("policy", sorted(POLICIES))
WEIGHING = pytest.mark.parametrize("policy", ["best", "weighted"])


def checked(received: float, failed: bool = False) -> Reading:
    return Reading(received, 1.0, None, failed_checks=(FailedCheck("web", "icmp: no answer"),) if failed else ())


def reported(received: float, score: int, cores: float = 2.0) -> Reading:
    metrics = {"requests_per_s": 100.0, "busy_workers": 1.0, "cpu_count": cores}
    return Reading(received, 1.0, score, metrics)


def chooser(**weights: float) -> Chooser:
    factors = {f"{name}.z": factor for name, factor in weights.items()}
    return Chooser(NAMES, 3.0, 0.5, Random(1), ramp_up=0.0, pool="web", weights=factors)


def snapshot(*readings: Reading) -> Snapshot:
    return Snapshot(1, dict(zip(NAMES, readings, strict=True)))


def handed_out(pool: Chooser, policy: str, now: float = 0.0, count: int = 400) -> Counter[int]:
    """Return how often each member is selected in ``count`` answers of heavy traffic."""
    first = pool.plan(policy, None, now)
    before = handed(first, 1000)
    pool.observe(Snapshot(), pool.pool.overrides, now)
    return Counter(hand_out(pool.plan(policy, before, now), count))


@EVERY_POLICY
def test_alike_members_without_agents_share_alike(policy: str) -> None:
    pool = chooser()
    pool.observe(snapshot(checked(0), checked(0), checked(0)), PoolOverrides(), 0.0)
    counts = handed_out(pool, policy, count=300)
    assert set(counts) == {0, 1, 2}
    assert max(counts.values()) - min(counts.values()) <= {"two_choices": 60, "least_charged": 20}.get(policy, 3)


@EVERY_POLICY
def test_who_fails_the_check_is_not_selected(policy: str) -> None:
    pool = chooser()
    pool.observe(snapshot(checked(0), checked(-30, failed=True), checked(0)), PoolOverrides(), 0.0)
    assert set(handed_out(pool, policy)) == {0, 2}


@WEIGHING
def test_weights_set_the_shares(policy: str) -> None:
    pool = chooser(b=2.0)
    pool.observe(snapshot(checked(0), checked(0), checked(0)), PoolOverrides(), 0.0)
    counts = handed_out(pool, policy)
    assert counts[1] == pytest.approx(200, abs=4)


@WEIGHING
def test_an_operator_s_weight_comes_on_top(policy: str) -> None:
    pool = chooser(b=2.0)
    pool.observe(snapshot(checked(0), checked(0), checked(0)), PoolOverrides(factors={"b.z": 0.5}), 0.0)
    assert handed_out(pool, policy)[1] == pytest.approx(400 / 3, abs=4)
    assert pool.pool.factor("b.z") == 1.0


def test_beside_members_with_agents_it_counts_as_the_mean_and_its_score_as_the_median() -> None:
    pool = chooser()
    pool.observe(snapshot(checked(0), reported(0, 80, cores=2.0), reported(0, 40, cores=4.0)), PoolOverrides(), 0.0)
    view = pool.view("best", 0.0)
    assert [member.score for member in view.members] == [40, 80, 40]
    assert view.members[0].capacity == pytest.approx(3.0)
    # As full as the emptier one of the two
    assert view.members[0].load == pytest.approx(view.members[0].capacity * 1.0 / 4.0)


def test_the_median_is_that_of_usable_members() -> None:
    pool = chooser()
    pool.observe(snapshot(checked(0), reported(-100, 80), reported(0, 40)), PoolOverrides(), 0.0)
    assert pool.view("best", 0.0).members[0].score == 40


def test_a_check_interval_is_no_report_interval() -> None:
    pool = chooser()
    slow = Reading(0.0, 60.0, None)
    pool.observe(snapshot(slow, slow, reported(0, 40)), PoolOverrides(), 0.0)
    assert pool.view("best", 0.0).interval == 1.0


@WEIGHING
def test_weights_concern_members_with_agents_too(policy: str) -> None:
    pool = chooser(a=2.0)
    pool.observe(snapshot(reported(0, 50), reported(0, 50), reported(0, 50)), PoolOverrides(), 0.0)
    assert handed_out(pool, policy)[0] == pytest.approx(200, abs=8)
