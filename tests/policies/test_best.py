from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.policies.best import HORIZON, best, expected_answers, expected_rates, level_filling_shares
from lbdns.policies.member_columns import MemberView
from lbdns.policies.plan import PoolView
from lbdns.policies.weighted import smooth_plan
from tests.policies.views import hand_out, handed, member, run, view


def test_shares_raise_all_members_to_one_level() -> None:
    pool = view(member(load=8.0, capacity=1.0), member(load=0.0, capacity=2.0), rate=4.0, interval=1.0)
    shares = level_filling_shares(pool)
    poured = HORIZON * 4.0
    assert sum(shares) == pytest.approx(1.0)
    assert shares == pytest.approx((0.0, 1.0))
    pool = view(member(load=1.0, capacity=1.0), member(load=0.0, capacity=2.0), rate=4.0)
    level = (1.0 + poured) / 3
    assert level_filling_shares(pool) == pytest.approx(((level - 1) / poured, 2 * level / poured))


def test_heavy_traffic_does_not_herd() -> None:
    shares = Counter(run(best, view(member(90), member(50), member(10), rate=1000.0), 300, 1))
    assert all(shares[i] == pytest.approx(100, abs=2) for i in range(3))


def test_light_traffic_always_gets_the_highest_score() -> None:
    pool = view(member(10), member(80), member(20), rate=1.0, allowed=20)
    assert run(best, pool, 2, 9) == [1] * 18


def test_answers_beyond_light_traffic_are_distributed_before_the_next_report() -> None:
    pool = view(member(10), member(80), member(20), rate=1.0, allowed=5)
    order = hand_out(best(pool, None, Random(1)), 305)
    assert order[:5] == [1] * 5
    shares = Counter(order[5:])
    assert all(shares[i] >= 80 for i in range(3))
    assert shares.total() == 300


def test_ties_take_turns_in_light_traffic() -> None:
    pool = view(member(80), member(80), member(20), rate=1.0, allowed=20)
    assert run(best, pool, 3, 4) == [0, 1] * 6


def test_loaded_members_get_less_than_their_share_by_capacity() -> None:
    pool = view(member(load=40.0), member(load=0.0), rate=40.0)
    shares = Counter(run(best, pool, 60, 1))
    assert shares[0] < 15


@given(st.floats(100.0, 1e5), st.floats(0.0, 20.0), st.floats(0.0, 20.0), st.floats(0.99, 1.01))
def test_a_member_that_is_far_too_full_does_not_change_how_the_others_share(
    full: float, one: float, other: float, faster: float
) -> None:
    def shares(load: float) -> tuple[float, ...]:
        members = member(0, load, 200), member(0, one, 200 * faster), member(0, other, 200)
        pool = busy(*members, requests=120, answers=120, in_progress=one + other)
        return level_filling_shares(pool)

    found, usual = shares(full * 100), shares(full * 50)
    assert found[0] == 0
    assert found[1:] == pytest.approx(usual[1:], abs=0.05)


def test_members_with_overdue_reports_get_nothing() -> None:
    pool = view(member(90, overdue=True), member(), member(), rate=100.0)
    assert set(run(best, pool, 100, 2)) == {1, 2}


def test_a_plan_continues_from_the_previous_selections() -> None:
    pool = view(member(capacity=1.0), member(capacity=1.0), rate=1000.0)
    first = best(pool, None, Random(1))
    assert best(pool, handed(first, 1), Random(1)).order[0] == 1


def busy(*members: MemberView, requests: float, answers: float, in_progress: float = math.inf) -> PoolView:
    return PoolView(members, 1.0, requests, answers, 0, measured=True, in_progress=in_progress)


def test_slow_cores_get_little_while_fast_cores_have_room() -> None:
    slow, fast = member(capacity=400.0, cores=8.0), member(capacity=200.0, cores=1.0)
    low = level_filling_shares(busy(slow, fast, requests=60.0, answers=60.0))
    assert low[1] > 0.9
    assert low[0] > 0.05, "no member gets nothing: its capacity would stay unknown"
    high = level_filling_shares(busy(slow, fast, requests=570.0, answers=570.0))
    assert high[0] == pytest.approx(2 / 3, abs=0.05)


def test_unmeasured_capacities_are_filled_in_proportion() -> None:
    pool = view(member(capacity=4.0, cores=8.0), member(capacity=2.0, cores=1.0), rate=60.0)
    assert level_filling_shares(pool) == pytest.approx((2 / 3, 1 / 3))


def test_members_above_their_ideal_load_get_less() -> None:
    pool = busy(*(member(capacity=100.0, load=n) for n in (5.0, 1.0, 1.0)), requests=150.0, answers=150.0)
    shares = level_filling_shares(pool)
    assert shares[0] < shares[1] == shares[2]


def test_members_with_contention_get_less() -> None:
    alone, beside = (
        run(
            best,
            replace(
                view(member(capacity=1000.0), member(capacity=1000.0, available_share=left), rate=600.0), measured=True
            ),
            600,
            3,
        )
        for left in (1.0, 0.25)
    )
    assert alone.count(1) == pytest.approx(900, rel=0.02)
    assert 0 < beside.count(1) < 0.2 * 1800


@pytest.mark.parametrize(("left", "limited"), [(1.0, True), (0.25, False)])
def test_a_fast_member_whose_host_leaves_it_a_confirmed_speed_needs_no_limit(left: float, limited: bool) -> None:
    """Three busy loops take three quarters of the only core of a member that is four times as fast as the next one."""
    fast = member(capacity=400.0, available_share=left, proven_capacity=110.0)
    pool = busy(member(capacity=110.0), member(capacity=70.0), fast, requests=116.0, answers=116.0)
    free = level_filling_shares(pool)[2]
    assert (level_filling_shares(replace(pool, max_speed_gain=1.4))[2] < 0.9 * free) == limited


def test_small_differences_are_ignored_when_clients_persist() -> None:
    def tilt(answers: float, apart: float) -> float:
        members = [member(capacity=100.0, load=n, cores=2.0) for n in (2.0 + apart, 2.0, 2.0)]
        shares = level_filling_shares(busy(*members, requests=200.0, answers=answers, in_progress=6.0 + apart))
        return shares[1] - shares[0]

    # The same answers per second, so only the requests per answer differ
    members = [member(capacity=1.0, load=n, cores=2.0) for n in (3.0, 2.0, 2.0)]
    alone = level_filling_shares(busy(*members, requests=2.0, answers=2.0, in_progress=7.0))
    kept = [member(capacity=100.0, load=n, cores=2.0) for n in (3.0, 2.0, 2.0)]
    streams = level_filling_shares(busy(*kept, requests=200.0, answers=2.0, in_progress=7.0))
    assert alone[1] - alone[0] > 5 * (streams[1] - streams[0]) > 0
    assert tilt(2.0, 100.0) > 0.4, "large ones are not"


def crowd(*members: MemberView, requests: float, answers: float, now: float) -> PoolView:
    return PoolView(members, 1.0, requests, answers, 0, measured=True, in_progress=10.0, recent_answers_per_s=now)


def test_an_arriving_crowd_is_not_all_sent_to_the_fastest_member() -> None:
    members = [member(capacity=110.0), member(capacity=70.0), member(capacity=400.0)]
    before = level_filling_shares(crowd(*members, requests=50.0, answers=50.0, now=50.0))
    assert before[2] > 0.75
    comes = level_filling_shares(crowd(*members, requests=50.0, answers=50.0, now=550.0))
    assert comes == pytest.approx((110 / 580, 70 / 580, 400 / 580), abs=0.05)


def test_each_answer_to_a_persistent_crowd_brings_the_usual_requests() -> None:
    slow, fast = member(capacity=400.0, cores=8.0), member(capacity=200.0, cores=1.0)
    assert expected_rates(crowd(slow, fast, requests=60.0, answers=6.0, now=6.0)) == (60.0, 6.0)
    assert expected_rates(crowd(slow, fast, requests=60.0, answers=6.0, now=54.0)) == pytest.approx((540.0, 54.0))
    few = level_filling_shares(crowd(slow, fast, requests=60.0, answers=6.0, now=6.0))
    many = level_filling_shares(crowd(slow, fast, requests=60.0, answers=6.0, now=54.0))
    assert few[0] < 0.1 < 0.5 < many[0]


@pytest.mark.parametrize(
    ("requests", "answers", "now", "expected"),
    [
        (50.0, 40.0, 40.0, (50.0, 40.0)),
        (50.0, 40.0, 200.0, (200.0, 200.0)),  # each brings one at least
        (50.0, 40.0, 45.0, (50.0, 45.0)),
        (0.0, 0.0, 0.0, (0.0, 0.0)),
        (math.inf, 40.0, 200.0, (math.inf, 200.0)),  # members that don't count requests
    ],
)
def test_expected_rates(requests: float, answers: float, now: float, expected: tuple[float, float]) -> None:
    assert expected_rates(crowd(member(), requests=requests, answers=answers, now=now)) == expected


@given(
    st.lists(
        st.tuples(st.floats(0, 500), st.floats(0.01, 1e4), st.floats(0.1, 64), st.floats(0.1, 1.0)),
        min_size=1,
        max_size=12,
    ),
    st.floats(0, 1e5),
    st.floats(0, 1e5),
    st.floats(0, 1e4),
    st.floats(1, 100),
)
def test_shares_sum_to_one_for_any_pool(
    members: list[tuple[float, float, float, float]], requests: float, answers: float, in_progress: float, times: float
) -> None:
    views = [member(load=n, capacity=c, cores=m, ramp=ramp) for n, c, m, ramp in members]
    pool = busy(*views, requests=requests, answers=answers, in_progress=in_progress)
    shares = level_filling_shares(replace(pool, recent_answers_per_s=times * answers))
    assert sum(shares) == pytest.approx(1.0, rel=1e-6)
    assert all(share >= 0 for share in shares)


def test_an_alarmed_member_gets_no_more_than_it_can_serve() -> None:
    full = member(load=300.0, capacity=100.0)
    others = member(load=900.0, capacity=100.0)
    free = view(full, others, rate=200.0)
    assert level_filling_shares(free)[0] == pytest.approx(1.0), "it has less load than the others"
    refusing = view(replace(full, alarmed=True), others, rate=200.0)
    assert level_filling_shares(refusing)[0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("members", "interval", "recent", "multiplier", "expected"),
    [
        (3, 1.0, 0.0, 1.0, 4),
        (3, 1.0, 96.0, 1.0, 64 + 32 + 4),  # two thirds of a second, and four standard deviations
        (1, 1.0, 100.0, 1.0, 100 + 40 + 4),  # never more than an interval
        (100, 1.0, 1000.0, 1.0, 100 + 40 + 4),  # at least a tenth of a second
        (100, 0.05, 2000.0, 1.0, 100 + 40 + 4),
        (1, 1.0, 400.0, 4.0, 100 + 40 + 4),  # other processes give three quarters of the answers
    ],
)
def test_expected_answers(members: int, interval: float, recent: float, multiplier: float, expected: int) -> None:
    pool = view(*[member() for _ in range(members)], rate=recent, interval=interval)
    assert expected_answers(replace(pool, multiplier=multiplier)) == expected


def test_answers_beyond_the_expected_number_are_in_proportion_to_capacity() -> None:
    """A crowd arrives long before the loads of the members show it."""
    full = member(capacity=300.0, load=1e4)
    pool = replace(view(full, member(capacity=100.0), member(capacity=900.0, overdue=True), rate=100.0), measured=True)
    plan = best(pool, None, Random(1))
    expected = expected_answers(pool)
    assert plan.repeat_from == expected
    assert set(plan.order[:expected]) == {1}
    more = Counter(hand_out(plan, expected + 10_000)[expected:])
    assert set(more) == {0, 1}
    assert more[0] / more[1] == pytest.approx(3.0, rel=0.05)


@pytest.mark.parametrize(("measured", "rate"), [(False, 100.0), (True, 2000.0)])
def test_without_capacities_or_with_many_answers_a_plan_has_one_part(measured: bool, rate: float) -> None:
    plan = best(replace(view(member(), member(), rate=rate), measured=measured), None, Random(1))
    assert plan.repeat_from == 0
    assert not plan.light


@given(
    st.lists(st.tuples(st.floats(0, 1e9), st.floats(0.01, 1e4), st.floats(0.05, 1)), min_size=1, max_size=30),
    st.floats(0, 1e5),
    st.floats(1, 100),
)
def test_every_plan_gives_the_expected_answers_before_any_other(
    values: list[tuple[float, float, float]], rate: float, multiplier: float
) -> None:
    members = [member(load=load, capacity=capacity, ramp=ramp) for load, capacity, ramp in values]
    pool = replace(view(*members, rate=rate), measured=True, multiplier=multiplier)
    plan = best(pool, None, Random(1))
    assert plan.repeat_from in (0, expected_answers(pool))
    assert 0 <= plan.repeat_from < len(plan.order)
    assert set(plan.order) <= set(range(len(members)))
    by_level = smooth_plan(pool, level_filling_shares(pool), None).order
    assert plan.order[: plan.repeat_from] == by_level[: plan.repeat_from]
