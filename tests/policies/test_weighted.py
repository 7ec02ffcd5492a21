from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.policies.plan import Plan, Selections
from lbdns.policies.weighted import MAX_LENGTH, MIN_LENGTH, carried_credits, smooth_order, smooth_plan, weighted
from tests.policies.views import handed, member, run, view

WEIGHTS = st.lists(st.floats(0.0, 10.0), min_size=1, max_size=12).filter(lambda w: sum(w) > 0.01)


def shares(weights: list[float]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


@given(WEIGHTS)
def test_every_prefix_is_close_to_the_shares(weights: list[float]) -> None:
    wanted = shares(weights)
    plan = smooth_plan(view(*(member() for _ in weights)), wanted, None)
    counts: Counter[int] = Counter()
    for number, i in enumerate(plan.order, 1):
        assert wanted[i] > 0
        counts[i] += 1
        assert counts[i] <= number * wanted[i] + 1 + len(weights) / 4
    for i, share in enumerate(wanted):
        assert counts[i] >= len(plan.order) * share - len(weights)


@given(WEIGHTS, st.integers(1, 40), st.integers(1, 12))
def test_credits_keep_the_shares_over_many_plans(weights: list[float], each: int, times: int) -> None:
    wanted = shares(weights)
    pool = view(*(member() for _ in weights))
    total: Counter[int] = Counter()
    before: Selections | None = None
    for _ in range(times):
        plan = smooth_plan(pool, wanted, before)
        before = handed(plan, each)
        total += Counter(plan.order[:each])
    for i, share in enumerate(wanted):
        assert total[i] == pytest.approx(each * times * share, abs=len(weights) + 1)


def test_plan_length_follows_the_answers_per_interval() -> None:
    quiet, busy, frantic = (smooth_plan(view(member(), rate=rate), [1.0], None) for rate in (1, 200, 1e6))
    assert [len(plan.order) for plan in (quiet, busy, frantic)] == [MIN_LENGTH, 400, MAX_LENGTH]


def test_credits_are_bounded_and_reset_for_another_pool() -> None:
    plan = Plan((0,), weights=(0.5, 0.5), credits=(0.0, 0.0))
    assert carried_credits(Selections(plan, (100, 0), 0), 2) == (-1.0, 1.0)
    assert carried_credits(Selections(plan, (100, 0), 0), 3) == (0.0, 0.0, 0.0)
    assert carried_credits(None, 2) == (0.0, 0.0)


@pytest.mark.parametrize("each", [1, 7, 100])
def test_shares_follow_capacity_at_any_plan_frequency(each: int) -> None:
    pool = view(member(capacity=1.0), member(capacity=2.0), member(capacity=5.0))
    counts = Counter(run(weighted, pool, each, 800 // each))
    total = counts.total()
    for i, capacity in enumerate((1, 2, 5)):
        assert counts[i] == pytest.approx(total * capacity / 8, abs=2)


def test_selections_are_smooth() -> None:
    order = run(weighted, view(member(capacity=1.0), member(capacity=1.0), member(capacity=2.0)), 64, 1)
    for start in range(0, 60, 4):
        window = Counter(order[start : start + 8])
        assert 3 <= window[2] <= 5


def test_an_overdue_member_gets_nothing_while_most_report() -> None:
    pool = view(member(), member(overdue=True), member())
    assert set(run(weighted, pool, 50, 2)) == {0, 2}


def test_with_half_overdue_all_members_are_used() -> None:
    pool = view(member(), member(overdue=True))
    assert set(run(weighted, pool, 50, 2)) == {0, 1}


def all_selections(weights: list[float], credits: list[float], length: int) -> list[tuple[float, int]]:
    """Return when each selection is due, for all selections that a plan of ``length`` could contain."""
    return sorted(
        ((k - 0.5 - credit) * (1 / weight), i)
        for i, (weight, credit) in enumerate(zip(weights, credits, strict=True))
        if weight > 0
        for k in range(1, int(length * weight + credit) + 3)
    )


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1e-6, 1.0, 1.0, 3.0, 90.0]), st.floats(-1, 1)), min_size=1, max_size=60),
    st.integers(0, 90),
)
def test_members_that_are_not_due_within_the_plan_change_nothing(pairs: list[tuple[float, float]], length: int) -> None:
    total = sum(weight for weight, _ in pairs) or 1.0
    weights, credits = [weight / total for weight, _ in pairs], [credit for _, credit in pairs]
    expected = all_selections(weights, credits, length)[:length]
    assert smooth_order(weights, credits, length) == tuple(i for _, i in expected)
