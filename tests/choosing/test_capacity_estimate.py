from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lbdns.choosing import capacity_estimate
from lbdns.choosing.capacity_estimate import (
    MIN_VARIANCE,
    ServedWork,
    capacities,
    forget_changed,
    observed_speeds,
    proven_capacities,
    python_variance_between_members,
)
from lbdns.choosing.reported_values import counted_cores
from lbdns.choosing.request_cost import MAX_SPEED, RequestCost
from lbdns.choosing.robust_estimates import winsorised
from tests.choosing.observed_work import work


def test_capacity_is_cores_times_requests_per_cpu_second() -> None:
    fast, slow = capacities(ServedWork.of([work(200), work(100)]), [1.0, 4.0], max_speed_gain=2.0)
    assert fast == pytest.approx(200, rel=0.15)
    assert slow == pytest.approx(400, rel=0.15)


def test_without_cpu_seconds_utilisation_is_used() -> None:
    fast, slow = capacities(ServedWork.of([work(200, metric="idle"), work(100, metric="idle")]), [1.0, 1.0])
    assert fast / slow == pytest.approx(2.0, rel=0.2)


def test_until_there_are_requests_cores_are_used() -> None:
    assert capacities(
        ServedWork.of([work(200, seconds=2, per_second=5), RequestCost()]), counted_cores([2.0, None])
    ) == (2.0, 2.0)


def test_a_member_without_request_counts_is_average_per_core() -> None:
    silent = RequestCost()
    silent.observe({"cpu_count": 2.0}, 1.0)
    known, unknown = capacities(ServedWork.of([work(100), silent]), [1.0, 2.0])
    assert unknown == pytest.approx(2 * 100, rel=0.01)
    assert known == pytest.approx(100, rel=0.01)


def serve(member: RequestCost, total: dict[str, float], per_second: float, per_cpu_second: float, seconds: int) -> None:
    """Make a member serve ``per_second`` requests/s at ``per_cpu_second`` requests per CPU second."""
    for _ in range(seconds):
        total["requests_total"] += per_second
        total["httpd_cpu_seconds"] += per_second / per_cpu_second
        member.observe(dict(total), 1.0)


def test_a_new_kind_of_request_is_detected_within_seconds() -> None:
    """Requests that cost twenty times as much replace requests for static pages."""
    fast, slow = RequestCost(), RequestCost()
    fast_total, slow_total = ({"requests_total": 0.0, "httpd_cpu_seconds": 0.0} for _ in range(2))
    serve(fast, fast_total, 1000, 4000, 60)
    serve(slow, slow_total, 300, 2000, 60)
    assert capacities(ServedWork.of([fast, slow]), [1.0, 1.0]) == pytest.approx((4000, 2000), rel=0.1)
    for _ in range(5):
        serve(fast, fast_total, 100, 200, 1)
        serve(slow, slow_total, 30, 100, 1)
        forget_changed([fast, slow])
    assert capacities(ServedWork.of([fast, slow]), [1.0, 1.0]) == pytest.approx((200, 100), rel=0.15)


def test_few_requests_of_a_new_kind_are_ignored() -> None:
    member = work(1000, seconds=120, per_second=10)
    total = {"requests_total": 1190.0, "httpd_cpu_seconds": 1.19}  # its last report
    before = capacities(ServedWork.of([member]), [1.0])[0]
    serve(member, total, 4, 300, 1)
    assert capacities(ServedWork.of([member]), [1.0])[0] == pytest.approx(before, rel=0.1)


@pytest.mark.parametrize("cores", [0.07, 64.0])
@pytest.mark.parametrize("seconds", [60, 4000])
def test_a_constant_cpu_counter_gives_a_finite_capacity(cores: float, seconds: int) -> None:
    member, total = RequestCost(), {"requests_total": 0.0, "httpd_cpu_seconds": 0.0}
    serve(member, total, 100, 500, 60)
    serve(member, total, 100, math.inf, seconds)
    alone = RequestCost()
    found = capacities(ServedWork.of([member, alone]), [cores, cores])
    common = member.work.requests / member.work.cpu_seconds
    assert all(0 < capacity < 1000 * cores * common for capacity in found)


@pytest.mark.parametrize("cpu", [5e-324, 1e-300, 1e-9])
def test_next_to_no_cpu_time_gives_a_finite_capacity(cpu: float) -> None:
    member = RequestCost()
    member.observe({"requests_total": 0.0, "httpd_cpu_seconds": 0.0}, 1.0)
    member.observe({"requests_total": 45.0, "httpd_cpu_seconds": cpu}, 1.0)
    assert capacities(ServedWork.of([member]), [4.0])[0] == pytest.approx(4.0 * MAX_SPEED, rel=0.01)


def test_cpu_time_without_requests_does_not_change_their_cost() -> None:
    """A server continues to use CPU time for an hour after its last requests, which were very expensive."""
    member, total = RequestCost(), {"requests_total": 0.0, "httpd_cpu_seconds": 0.0}
    serve(member, total, 10, 0.25, 60)
    for _ in range(3600):
        total["httpd_cpu_seconds"] += 4
        member.observe(dict(total), 1.0)
        assert capacities(ServedWork.of([member]), [4.0])[0] > 0


def test_the_agents_own_requests_do_not_change_the_speed() -> None:
    """The agent sends one 1-ms request per second; later, a crowd of clients sends requests that take 100 ms each."""
    members = [RequestCost() for _ in range(3)]
    total = cpu = 0.0
    for _ in range(600):
        total, cpu = total + 1, cpu + 0.001
        for member in members:
            member.observe({"requests_total": total, "httpd_cpu_seconds": cpu}, 1.0, status_requests=1)
    assert capacities(ServedWork.of(members), [0.11, 0.07, 0.4]) == (0.11, 0.07, 0.4)
    for _ in range(10):
        total, cpu = total + 5, cpu + 4 * 0.1 + 0.001
        for member in members:
            member.observe({"requests_total": total, "httpd_cpu_seconds": cpu}, 1.0, status_requests=1)
    assert capacities(ServedWork.of(members), [1.0] * 3) == pytest.approx([10.0] * 3, rel=0.05)


def test_a_report_without_requests_keeps_the_estimate() -> None:
    slow, fast = work(50), work(200)
    before = capacities(ServedWork.of([slow, fast]), [1.0, 1.0])
    slow.observe({"cpu_count": 1.0, "httpd_cpu_seconds": 1000.0}, 1.0)
    assert capacities(ServedWork.of([slow, fast]), [1.0, 1.0]) == pytest.approx(before, rel=0.03)


def test_an_uncertain_member_does_not_hide_differences() -> None:
    chance = Random(1)
    works = [noisy(speed, chance, 50) for speed in (50, 100, 200)]
    known = capacities(ServedWork.of(works), [1.0] * 3)
    strangers = [noisy(100, chance, 1, spread=2.0) for _ in range(7)]
    assert capacities(ServedWork.of(works + strangers), [1.0] * 10)[:3] == pytest.approx(known, rel=0.25)


def noisy(requests_per_cpu_second: float, chance: Random, per_second: int = 10, spread: float = 2.0) -> RequestCost:
    """Return the request cost of a member whose requests vary widely in size."""
    found = RequestCost()
    cpu = 0.0
    for second in range(120):
        metrics = {"requests_total": float(per_second * second), "httpd_cpu_seconds": cpu, "cpu_count": 1.0}
        found.observe(metrics, 1.0)
        cpu += sum(chance.lognormvariate(-(spread**2) / 2, spread) for _ in range(per_second)) / requests_per_cpu_second
    return found


@pytest.mark.parametrize("seed", range(5))
def test_equal_members_are_shrunk_together(seed: int) -> None:
    chance = Random(seed)
    works = [noisy(100, chance) for _ in range(10)]
    looks = [work.work.requests / work.work.cpu_seconds for work in works]
    found = capacities(ServedWork.of(works), [1.0] * 10)
    assert max(found) / min(found) < 1 + 0.5 * (max(looks) / min(looks) - 1)


@pytest.mark.parametrize("seed", range(5))
def test_members_that_really_differ_stay_apart(seed: int) -> None:
    chance = Random(seed)
    works = [noisy(speed, chance, speed // 2, spread=0.5) for speed in (50, 100, 100, 400)]
    found = observed_speeds(ServedWork.of(works))
    looks = [work.work.requests / work.work.cpu_seconds for work in works]
    assert found == pytest.approx(looks, rel=0.06)


@given(
    st.lists(st.tuples(st.floats(0.1, 1e4), st.floats(0, 1e3), st.floats(0.1, 64)), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
)
def test_capacities_are_always_positive_numbers(members: list[tuple[float, float, float]], chance: Random) -> None:
    works = []
    for speed, per_second, _ in members:
        found, total, cpu = RequestCost(), 0.0, 0.0
        for _ in range(8):
            found.observe({"requests_total": total, "httpd_cpu_seconds": cpu}, 1.0)
            total += per_second * chance.random()
            cpu += per_second * chance.random() / speed
        works.append(found)
    for capacity in capacities(ServedWork.of(works), [cores for _, _, cores in members]):
        assert 0 < capacity < math.inf


def test_a_member_that_claims_to_be_a_thousand_times_faster_does_not_decide_for_the_others() -> None:
    before = capacities(ServedWork.of([work(100), work(110), work(90)]), [1.0] * 3)
    after = capacities(ServedWork.of([work(100), work(110), work(100_000)]), [1.0] * 3)
    assert after[:2] == pytest.approx(before[:2], rel=0.1)


@pytest.mark.parametrize("gain", [1.4, 2.0, 8.0])
@pytest.mark.parametrize("cores", [[1.0, 1.0, 1.0], [1.0, 2.0, 4.0], [2.0] * 10])
def test_the_fastest_members_share_is_limited(cores: list[float], gain: float) -> None:
    honest = capacities(ServedWork.of([work(100)] * len(cores)), cores)
    claimed = capacities(ServedWork.of([*[work(100)] * (len(cores) - 1), work(10_000)]), cores, gain)
    share = claimed[-1] / sum(claimed)
    assert share <= gain * honest[-1] / sum(honest) * 1.01
    assert claimed[:-1] == pytest.approx(honest[:-1], rel=0.01)


def test_two_fast_members_confirm_each_other() -> None:
    found = capacities(
        ServedWork.of([work(100, per_second=50), work(400, per_second=50), work(410, per_second=50)]), [1.0] * 3
    )
    assert found == pytest.approx((100, 400, 410), rel=0.15)


def test_proven_capacities() -> None:
    assert proven_capacities((100.0, 400.0, 900.0), (1.0, 2.0, 3.0), [True] * 3) == (100.0, 400.0, 600.0)
    assert proven_capacities((100.0, 400.0, 900.0), (1.0, 2.0, 3.0), [True, False, True]) == (100.0, 200.0, 300.0)
    assert proven_capacities((100.0, 900.0), (1.0, 1.0), [False, True]) == (100.0, 900.0)
    assert proven_capacities((100.0,), (1.0,), [True]) == (100.0,)
    assert proven_capacities((), (), []) == ()


def test_of_two_members_with_requests_the_slower_decides_how_fast_the_others_count() -> None:
    honest, liar = work(100, per_second=50), work(100_000, per_second=50_000)
    found = capacities(ServedWork.of([honest, liar, RequestCost()]), [1.0] * 3)
    assert found[0] == pytest.approx(100, rel=0.05)
    assert found[2] <= 105
    assert found[1] / sum(found) <= 1.4 / 3 * 1.02


def report(member: RequestCost, total: list[float], requests: float, cpu: float) -> None:
    total[0] += requests
    total[1] += cpu
    member.observe({"requests_total": total[0], "httpd_cpu_seconds": total[1], "cpu_count": 4.0}, 1.0)


def test_a_member_whose_requests_change_their_cost_forgets_the_past() -> None:
    members, totals = [RequestCost() for _ in range(3)], [[0.0, 0.0] for _ in range(3)]
    for second in range(120):
        for i, (member, total) in enumerate(zip(members, totals, strict=True)):
            speed = 300 if i == 2 and second < 90 else 100
            report(member, total, 150, 150 / speed)
        forget_changed(members)
        if second == 89:
            assert observed_speeds(ServedWork.of(members)) == pytest.approx([100, 100, 300], rel=0.05)
    assert observed_speeds(ServedWork.of(members)) == pytest.approx([100, 100, 100], rel=0.02)


def test_a_change_that_all_members_share_keeps_their_ratios() -> None:
    members, totals = [RequestCost() for _ in range(3)], [[0.0, 0.0] for _ in range(3)]
    for second in range(70):
        for i, (member, total) in enumerate(zip(members, totals, strict=True)):
            report(member, total, 150, 150 / ((i + 1) * (100 if second < 60 else 50)))
        forget_changed(members)
        if second >= 50:
            speeds = observed_speeds(ServedWork.of(members))
            assert [speed / speeds[0] for speed in speeds] == pytest.approx([1, 2, 3], rel=0.05)


def bisected_variance(known: list[tuple[float, float]], inner: list[float]) -> float:
    """Return the variance between members by a plain bisection."""

    def differences(between: float) -> float:
        weights = [1 / (variance + between) for _, variance in known]
        mean = sum([weight * speed for weight, speed in zip(weights, inner, strict=True)]) / sum(weights)
        gaps = [speed / mean - 1 for speed, _ in known]
        return sum([gap * gap / (v + between) for gap, (_, v) in zip(gaps, known, strict=True)])

    low, high = 0.0, float(len(known))
    if differences(low) <= len(known) - 1:
        return 0.0
    while differences(high) > len(known) - 1:
        high *= 4
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if differences(middle) > len(known) - 1 else (low, middle)
    return high


@given(st.lists(st.tuples(st.floats(0.001, 1e6), st.floats(MIN_VARIANCE, 100)), min_size=1, max_size=12))
@example([(100.0, 0.01), (200.0, 0.01), (400.0, 0.0001), (50.0, 0.5)])
@example([(1.0, 1e-6), (1e6, 1e-6)])
@example([(103339.0, 3.0)])
@example([(1.0, 1e-6), (1.0, 1e-6), (2.0, 1e-6)])
def test_the_variance_between_members_is_that_of_a_bisection(known: list[tuple[float, float]]) -> None:
    inner = winsorised([speed for speed, _ in known])
    assert python_variance_between_members(known, inner) == bisected_variance(known, inner)


def test_the_variance_between_many_members_takes_few_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [(100.0 * (1 + n % 7), 0.001 * (1 + n % 3)) for n in range(1000)]
    betweens: list[float] = []
    mean_speed = capacity_estimate._mean_speed

    def counted(known: Sequence[tuple[float, float]], inner: Sequence[float], between: float) -> float:
        betweens.append(between)
        return mean_speed(known, inner, between)

    monkeypatch.setattr(capacity_estimate, "_mean_speed", counted)
    assert python_variance_between_members(known, winsorised([speed for speed, _ in known])) > 0
    assert len(betweens) <= 12
