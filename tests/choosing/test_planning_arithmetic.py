"""Tests of the arithmetic of planning: the native extension computes exactly the same numbers as Python."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lbdns.choosing.capacity_estimate as estimate
from lbdns.choosing import observed_pool
from lbdns.choosing.capacity_estimate import (
    MIN_VARIANCE,
    ServedWork,
    proven_capacities,
    python_capacities,
    python_proven_capacities,
    python_variance_between_members,
    variance_between_members,
)
from lbdns.choosing.observed_pool import ObservedPool
from lbdns.choosing.robust_estimates import winsorised
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.native_extension import AVAILABLE
from lbdns.policies import best, weighted
from lbdns.policies.best import level_filling_shares
from lbdns.policies.level_filling import fill_to_level, python_fill_to_level
from lbdns.policies.member_columns import MemberView
from lbdns.policies.operating_point import operating_point, python_operating_point
from lbdns.policies.plan import Plan, PoolView, Selections
from lbdns.policies.weighted import carried_credits, python_carried_credits, python_smooth_order, smooth_order
from tests.needs import needs

pytestmark = needs(native=True)
if AVAILABLE:
    import lbdns_native

LARGEST = 12  # members
capacities = st.floats(0.001, 1e6)
core_counts = st.floats(0.001, 256) | st.sampled_from([0.5, 1.5, 2.5, 1.0, 2.0, 64.0])
servers = st.lists(st.tuples(capacities, core_counts), min_size=1, max_size=LARGEST)
speeds = st.tuples(st.floats(0.001, 1e6), st.floats(MIN_VARIANCE, 100))
fills = st.tuples(st.floats(-1e4, 1e5), st.floats(1e-3, 1e6), st.floats(1e-3, 1e9) | st.just(float("inf")))
shares = st.tuples(st.floats(0, 1), st.floats(-1, 1))


@given(
    servers,
    st.floats(0, 1e7),
    st.floats(0, 1e6) | st.just(float("inf")),
    st.dictionaries(st.integers(0, LARGEST - 1), st.floats(0.5, 1e3)),
    st.dictionaries(st.integers(0, LARGEST - 1), st.floats(0.0, 0.05)),
)
@example([(100.0, 64.0)] * 3, 250.0, float("inf"), {}, {})
@example([(10.0, 1.0), (40.0, 4.0)], 1000.0, 3.0, {1: 2.5}, {})
@example([(110.0, 0.11), (70.0, 0.07), (400.0, 0.4)], 174.0, 3.0, {2: 3.0}, {2: 0.032})
def test_the_operating_point_is_the_same(
    members: list[tuple[float, float]],
    rate: float,
    in_progress: float,
    tasks: dict[int, float],
    standstills: dict[int, float],
) -> None:
    capacity, cores = [one for one, _ in members], [m for _, m in members]
    tasks = {i: number for i, number in tasks.items() if i < len(members)}
    standstills = {i: wait for i, wait in standstills.items() if i < len(members)}
    assert operating_point(capacity, cores, rate, in_progress, tasks, standstills) == python_operating_point(
        capacity, cores, rate, in_progress, tasks, standstills
    )


def test_other_tasks_of_nobody_are_refused() -> None:
    with pytest.raises(ValueError, match="each value must belong to a member"):
        operating_point([1.0, 2.0], [1.0, 1.0], 1.0, 1.0, {2: 3.0})
    with pytest.raises(ValueError, match="each value must belong to a member"):
        operating_point([1.0, 2.0], [1.0, 1.0], 1.0, 1.0, {}, {2: 0.03})


@given(st.lists(speeds, min_size=1, max_size=LARGEST))
@example([(100.0, 0.01), (200.0, 0.01), (400.0, 0.0001), (50.0, 0.5)])
def test_the_variance_between_members_is_the_same(known: list[tuple[float, float]]) -> None:
    inner = winsorised([speed for speed, _ in known])
    assert variance_between_members(known, inner) == python_variance_between_members(known, inner)


@given(st.lists(fills, min_size=1, max_size=LARGEST), st.floats(1e-3, 1e7))
@example([(0.0, 1.0, 2.0), (5.0, 1.0, 2.0), (1.0, 3.0, float("inf"))], 10.0)
def test_the_parts_are_the_same(members: list[tuple[float, float, float]], amount: float) -> None:
    loads, widths, limits = ([member[column] for member in members] for column in range(3))
    assert fill_to_level(loads, widths, limits, amount) == python_fill_to_level(loads, widths, limits, amount)


@given(st.lists(shares, max_size=LARGEST), st.integers(0, 40))
@example([(0.25, 0.0)] * 4, 64)
@example([(1.0, -1.0), (0.0, 1.0)], 3)
def test_the_order_is_the_same(members: list[tuple[float, float]], length: int) -> None:
    weights, credits = [weight for weight, _ in members], [credit for _, credit in members]
    assert smooth_order(weights, credits, length) == python_smooth_order(weights, credits, length)


def test_a_capacity_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="every capacity must be above 0"):
        operating_point([1.0, 0.0], [1.0, 1.0], 1.0)


works = st.tuples(
    st.floats(0, 1e6) | st.just(0.0),
    st.floats(0, 1e4) | st.just(0.0),
    st.floats(0, 100) | st.just(float("inf")),
    st.booleans() | st.just(True),
    core_counts,
)


def test_the_extension_has_all_functions() -> None:
    assert (estimate.NATIVE, best.NATIVE, weighted.NATIVE) == (True, True, True)


@given(st.lists(works, min_size=1, max_size=LARGEST), st.floats(1.0, 10.0))
@example([(100.0, 1.0, 0.01, True, 2.0), (900.0, 1.0, 0.01, True, 2.0), (110.0, 1.0, 0.01, True, 4.0)], 1.5)
@example([(100.0, 1.0, 0.01, True, 2.0), (0.0, 0.0, float("inf"), False, 2.0)], 2.0)
@example([(21.0, 0.0, float("inf"), True, 2.2), (2.3e-307, 4.0, 4.0, True, 233.3)], 1.25)  # idle for a month
def test_the_capacities_are_the_same(members: list[tuple[float, float, float, bool, float]], gain: float) -> None:
    requests, cpu, variances, counted, cores = ([member[column] for member in members] for column in range(5))
    known = [v if r > 0 and c > 0 else float("inf") for r, c, v in zip(requests, cpu, variances, strict=True)]
    work = ServedWork(requests, cpu, known, [bool(one) for one in counted])
    if estimate.enough_observed(work):
        assert estimate.capacities(work, cores, gain) == python_capacities(work, cores, gain)


@given(st.lists(st.tuples(capacities, core_counts, st.booleans()), max_size=LARGEST))
def test_the_proven_capacities_are_the_same(members: list[tuple[float, float, bool]]) -> None:
    capacity, cores = [one for one, _, _ in members], [m for _, m, _ in members]
    counted = [is_counted for _, _, is_counted in members]
    assert proven_capacities(capacity, cores, counted) == python_proven_capacities(capacity, cores, counted)


members = st.builds(
    MemberView, st.booleans() | st.just(True), st.booleans(), st.just(50), st.floats(0, 1e4), st.floats(0.1, 1e4),
    core_counts, st.floats(0.1, 1e4) | st.just(float("inf")), available_share=st.floats(0.01, 1),
    alarmed=st.sampled_from([False, False, True]), ramp=st.floats(0.1, 1) | st.just(1.0),
    other_tasks=st.just(0.0) | st.floats(0.5, 100), standstill=st.just(0.0) | st.floats(0.0, 0.05),
)  # fmt: skip
rates = st.floats(0, 1e5)


@given(st.lists(members, max_size=LARGEST), rates, rates, st.floats(1, 1e4) | st.just(float("inf")), st.floats(0, 2e5))
@example(
    [MemberView(True, False, 50, 3.0, 100.0, 4.0, 50.0), MemberView(True, False, 50, 0.0, 10.0)], 60.0, 9.0, 5.0, 9
)
def test_the_shares_are_the_same(
    pool: list[MemberView], requests: float, answers: float, in_progress: float, recent: float
) -> None:
    view = PoolView(
        pool, 1.0, requests, answers, 0, measured=True, in_progress=in_progress, max_speed_gain=1.5,
        recent_answers_per_s=max(answers, recent),
    )  # fmt: skip
    shares = level_filling_shares(view)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best, "NATIVE", False)
        assert level_filling_shares(view) == shares


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(-1, 1), st.integers(0, 50)), min_size=1, max_size=LARGEST))
def test_the_credits_are_the_same(owed: list[tuple[float, float, int]]) -> None:
    plan = Plan((0,), 0, tuple(w for w, _, _ in owed), tuple(credit for _, credit, _ in owed))
    previous = Selections(plan, tuple(count for _, _, count in owed), None)
    assert carried_credits(previous, len(owed)) == python_carried_credits(previous)


@pytest.mark.parametrize("load", [0.05, 0.6, 0.95, 1.5])
@pytest.mark.parametrize("cores", [(1, 2, 4, 8), (1,), (2, 64, 3), (16,)])
def test_the_operating_point_of_a_large_pool_is_the_same(cores: tuple[int, ...], load: float) -> None:
    chance = Random(3)
    counts = [float(chance.choice(cores)) for _ in range(2000)]
    capacity = [m * chance.uniform(40, 60) for m in counts]
    for in_progress in (math.inf, 1500.0):
        given = capacity, counts, load * sum(capacity), in_progress
        assert operating_point(*given) == python_operating_point(*given)


def test_new_readings_are_found_as_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(f"m{i}" for i in range(7))
    old = {name: Reading(float(i), 1.0, 50) for i, name in enumerate(names[:5])}
    new = old | {"m1": Reading(9.0, 1.0, 50), "m5": Reading(9.0, 1.0, 50), "other": Reading(9.0, 1.0, 50)}
    del new["m3"]
    for native in (True, False):
        monkeypatch.setattr(observed_pool, "NATIVE_SCAN", native)
        pool = ObservedPool(names)
        assert pool.observe(Snapshot(1, old)) == [0, 1, 2, 3, 4]
        assert pool.observe(Snapshot(2, new)) == [1, 5]


def busy(number: int, at: float, chance: Random) -> Reading:
    metrics = {
        "cpu_count": chance.choice([1.0, 2.0, 4.0]),
        "busy_workers": float(chance.randint(0, 9)),
        "requests_per_s": chance.uniform(0, 400),
        "requests_total": 100.0 * number + 50 * at,
        "httpd_cpu_seconds": number + at,
    }
    return Reading(at, 1.0, chance.choice([None, 40, 60]), metrics if number % 5 else {"run_queue": 2.0})


def test_members_observed_together_have_the_same_columns_as_those_observed_in_python() -> None:
    assert observed_pool.NATIVE_BATCH
    names, chance = tuple(f"m{number}" for number in range(20)), Random(5)
    native, python = ObservedPool(names, native=True), ObservedPool(names)
    readings: dict[str, Reading] = {}
    for version in range(1, 30):
        readings |= {name: busy(n, float(version), chance) for n, name in enumerate(names) if chance.random() < 0.5}
        if version % 4 == 0:  # the same metrics in a new reading
            readings["m3"] = replace(readings["m3"], received=version + 0.5)
        snapshot = Snapshot(version, dict(readings))
        while native.observe_some(snapshot, 3):
            pass
        assert native.observe(snapshot) == python.observe(snapshot)
        assert native.columns.by_report == python.columns.by_report
        assert native.columns.work == python.columns.work
        assert native.cores == python.cores
        assert native.observed_capacities() == python.observed_capacities()


@given(st.lists(st.tuples(st.none() | st.floats(0, 1e6), st.floats(1e-9, 1e6)), min_size=1), st.floats(0.1, 3))
def test_the_limited_rates_are_the_same(members: list[tuple[float | None, float]], margin: float) -> None:
    rates, capacity = [rate for rate, _ in members], [c for _, c in members]
    limited = [rate if rate is None or rate <= margin * c else margin * c for rate, c in members]
    assert lbdns_native.limited_rates(rates, capacity, margin) == limited
    assert rates == [rate for rate, _ in members]


def test_members_of_which_some_are_observed_in_python_are_compared_in_python() -> None:
    members = [*ObservedPool(["a", "b"], native=True).members, *ObservedPool(["c"]).members]
    assert estimate.forget_changed([member.request_cost for member in members]) == []
