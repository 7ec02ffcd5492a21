"""Observations of members: missing counts of busy workers, report intervals, overdue reports, and estimates."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.choosing.observed_pool import BUSY_WORKERS_VALID, OVERDUE_AFTER, ObservedMember, ObservedPool
from lbdns.model.overrides import PoolOverrides
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.model.snapshot_maker import SnapshotMaker


def reading(received: float, interval: float = 1.0, **metrics: float) -> Reading:
    return Reading(received, interval, 50, metrics)


def test_missing_busy_workers_keep_their_last_value_for_a_while() -> None:
    member = ObservedMember()
    member.observe(reading(0.0, busy_workers=7.0, run_queue=1.0))
    member.observe(reading(BUSY_WORKERS_VALID, run_queue=2.0))
    assert member.metrics["busy_workers"] == 7.0
    member.observe(reading(BUSY_WORKERS_VALID + 1, run_queue=2.0))
    assert "busy_workers" not in member.metrics


def test_busy_workers_are_not_added_to_a_report_without_a_run_queue() -> None:
    member = ObservedMember()
    member.observe(reading(0.0, busy_workers=7.0, run_queue=1.0))
    member.observe(reading(1.0, cpu_idle=50.0))
    assert "busy_workers" not in member.metrics


@pytest.mark.parametrize(("every", "interval"), [(0.5, 1.0), (1.0, 1.0), (3.0, 3.0)])
def test_the_interval_is_the_declared_one_or_the_observed_one_if_longer(every: float, interval: float) -> None:
    member = ObservedMember()
    for number in range(100):
        member.observe(reading(number * every))
    assert member.interval == pytest.approx(interval, rel=0.01)
    assert member.overdue_at == pytest.approx(99 * every + OVERDUE_AFTER * interval, rel=0.01)


def test_impossible_metrics_are_dropped() -> None:
    member = ObservedMember()
    member.observe(reading(0.0, cpu_count=1e9, run_queue=3.0))
    assert member.metrics == {"run_queue": 3.0}
    assert member.in_progress.value == 3.0


def test_a_reading_with_the_same_metrics_adds_no_observation() -> None:
    """An alarm or "bye" report without metrics keeps the metrics of the previous report."""
    member = ObservedMember()
    first = reading(0.0, requests_per_s=10.0, requests_total=100.0, httpd_cpu_seconds=1.0)
    member.observe(first)
    member.observe(reading(1.0, requests_per_s=20.0, requests_total=120.0, httpd_cpu_seconds=1.1))
    rate, requests = member.requests_per_s.value, member.request_cost.work.requests
    assert member.reading is not None
    member.observe(Reading(2.0, 1.0, 50, member.reading.metrics, alarm="busy"))
    assert (member.requests_per_s.value, member.request_cost.work.requests) == (rate, requests)


def estimates(pool: ObservedPool) -> tuple[object, ...]:
    return list(pool.cores), pool.measured, pool.observed_capacities()


def served(number: int, cores: float) -> Reading:
    return reading(float(number), requests_total=100.0 * number, httpd_cpu_seconds=2.0 * number, cpu_count=cores)


def test_estimates_follow_every_new_report() -> None:
    pool = ObservedPool(["a", "b"])
    seen = [estimates(pool)]
    for number in range(1, 4):
        pool.observe(Snapshot(number, {"a": served(number, number + 1.0), "b": served(number, 1.0)}))
        fresh = ObservedPool(["a", "b"])
        fresh.take_over(pool, [0, 1])  # computes everything from the same members
        assert estimates(pool) == estimates(fresh)
        seen.append(estimates(pool))
    assert all(before != after for before, after in pairwise(seen))
    assert seen[-1][1]


def test_estimates_follow_the_members_of_a_reload() -> None:
    old, new = ObservedPool(["a", "b"]), ObservedPool(["b", "a"])
    old.observe(Snapshot(1, {"a": served(1, 4.0), "b": served(1, 2.0)}))
    assert estimates(new)[0] == [1.0, 1.0]
    new.take_over(old, [1, 0])
    assert estimates(new)[0] == [2.0, 4.0]


def test_scores_of_all_members_are_weighted_like_each_one() -> None:
    pool = ObservedPool(["a", "b"], weights={"b": 0.5})
    assert list(pool.weighted_scores([81, 81])) == [pool.weighted_score(i, 81) for i in range(2)] == [81, 40]
    pool.overrides = PoolOverrides(factors={"a": 2.0})
    assert list(pool.weighted_scores([81, 81])) == [162, 40]
    assert list(ObservedPool(["a", "b"]).weighted_scores([81, 7])) == [81, 7]


def test_readings_can_be_recorded_a_few_at_a_time() -> None:
    names = [f"m{n}" for n in range(5)]
    whole, parts = ObservedPool(names), ObservedPool(names)
    for second in range(3):
        metrics = {"requests_total": 100.0 * second, "httpd_cpu_seconds": 1.0 * second, "cpu_count": 2.0}
        snapshot = Snapshot(second, {name: Reading(10.0 + second, 1.0, 50, metrics) for name in names[second:]})
        calls = [parts.observe_some(snapshot, 2) for _ in range(3 if second == 0 else 2)]
        assert calls == [True] * (len(calls) - 1) + [False]
        assert parts.observe(snapshot) == whole.observe(snapshot) == list(range(second, 5))
        assert estimates(parts) == estimates(whole)
    assert parts.observe(snapshot) == []


def test_readings_recorded_before_a_newer_snapshot_count_as_new() -> None:
    pool = ObservedPool(["m0", "m1", "m2"])
    old = {name: Reading(10.0, 1.0, 50) for name in pool.names}
    assert pool.observe_some(Snapshot(1, old), 1)
    assert pool.observe(Snapshot(2, {**old, "m1": Reading(11.0, 1.0, 50)})) == [0, 1, 2]
    assert pool.reported == [10.0, 11.0, 10.0]


def test_readings_recorded_before_a_reload_count_as_new_after_it() -> None:
    before, after = ObservedPool(["m0", "m1"]), ObservedPool(["m1", "m0"])
    snapshot = Snapshot(1, {name: Reading(10.0, 1.0, 50) for name in before.names})
    before.observe_some(snapshot, 1)
    after.take_over(before, [1, 0])
    assert after.observe(snapshot) == [0, 1]


@given(st.lists(st.tuples(st.sets(st.integers(0, 6)), st.sampled_from(["update", "all", "skip", "unknown"]))))
def test_recorded_changes_lead_to_the_same_observations(rounds: list[tuple[set[int], str]]) -> None:
    """A snapshot may state which readings have changed, and a pool need not observe every snapshot."""
    names = [f"m{number}" for number in range(5)]  # the readings of m5 and m6 belong to other pools
    maker, informed, plain = SnapshotMaker(), ObservedPool(names), ObservedPool(names)
    for at, (members, kind) in enumerate(rounds):
        readings = {f"m{number}": Reading(float(at), 1.0, 50) for number in members}
        if kind == "all":
            maker.replace_all(readings)
        else:
            maker.update(readings)
        snapshot = maker.make()
        if kind == "skip":
            continue
        copy = Snapshot(snapshot.version, snapshot.readings)
        if kind == "unknown":
            snapshot = copy
        assert informed.observe(snapshot) == plain.observe(copy)
        assert informed.readings == plain.readings
