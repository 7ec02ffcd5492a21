from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lbdns.policies.operating_point import MAX_UTILISATION, OperatingPoint, operating_point

MEMBERS = st.lists(st.tuples(st.floats(1.0, 1000.0), st.integers(1, 16)), min_size=1, max_size=12)


def seconds(capacity: float, cores: float, rate: float) -> float:
    """Return the mean number of requests in progress on a member that serves ``rate`` requests/s."""
    utilisation = rate / capacity
    return cores * utilisation / (1 - math.pow(utilisation, cores))


def total(capacities: list[float], cores: list[int], rates: tuple[float, ...]) -> float:
    return sum(seconds(c, m, rate) for c, m, rate in zip(capacities, cores, rates, strict=True))


@given(MEMBERS, st.floats(0.05, 0.95))
@example([(755.0, 14)], 0.0546875)
def test_the_whole_rate_is_split_within_capacities(members: list[tuple[float, int]], load: float) -> None:
    capacities, cores = [c for c, _ in members], [m for _, m in members]
    rate = load * sum(capacities)
    point = operating_point(capacities, cores, rate)
    assert sum(point.rates) == pytest.approx(rate)
    assert all(0 <= r < c for r, c in zip(point.rates, capacities, strict=True))
    for c, m, r, in_progress in zip(capacities, cores, point.rates, point.loads, strict=True):
        assert in_progress == pytest.approx(seconds(c, m, r), rel=0.1, abs=0.01)


@given(MEMBERS, st.floats(0.05, 0.9), st.data())
def test_no_other_split_has_a_lower_total(members: list[tuple[float, int]], load: float, data: st.DataObject) -> None:
    assume(len(members) > 1)
    capacities, cores = [c for c, _ in members], [m for _, m in members]
    point = operating_point(capacities, cores, load * sum(capacities))
    here, there = data.draw(st.permutations(range(len(members))))[:2]
    moved = data.draw(st.floats(0.01, 0.5)) * point.rates[here]
    other = [*point.rates]
    other[here] -= moved
    other[there] += moved
    assume(other[there] < 0.99 * capacities[there])
    assert total(capacities, cores, tuple(other)) >= total(capacities, cores, point.rates) * (1 - 5e-3)


@given(MEMBERS, st.floats(0.05, 0.9), st.data())
def test_beside_other_tasks_the_loads_are_those_of_processor_sharing(
    members: list[tuple[float, int]], load: float, data: st.DataObject
) -> None:
    """With ``k`` permanent tasks on all cores, ``(k + 1) * p / (1 - p)`` requests are in progress."""
    capacities, cores = [c for c, _ in members], [m for _, m in members]
    tasks = {i: data.draw(st.floats(m - 1, 50)) for i, m in enumerate(cores)}
    point = operating_point(capacities, cores, load * sum(capacities), math.inf, tasks)
    assert sum(point.rates) == pytest.approx(load * sum(capacities))
    for i, (capacity, rate) in enumerate(zip(capacities, point.rates, strict=True)):
        p = rate / capacity
        # The search ends at a relative accuracy
        error = 0.01 + 2e-3 * sum(point.loads)
        assert point.loads[i] == pytest.approx((tasks[i] + 1) * p / (1 - p), rel=0.1, abs=error)


def test_other_tasks_matter_less_the_higher_the_load() -> None:
    low, middle, high = (
        operating_point([100.0, 100.0], [2, 2], rate, other_tasks={1: 20.0}) for rate in (20, 120, 190)
    )
    assert low.rates[1] == 0.0
    assert 0.1 < middle.rates[1] / middle.rates[0] < 0.7
    assert high.rates[1] / high.rates[0] > 0.8


@given(MEMBERS, st.floats(0.05, 0.9), st.floats(0.0, 0.05))
def test_if_all_hosts_stand_still_equally_the_rates_stay_the_same(
    members: list[tuple[float, int]], load: float, wait: float
) -> None:
    capacities, cores = [c for c, _ in members], [m for _, m in members]
    rate = load * sum(capacities)
    point = operating_point(capacities, cores, rate)
    waiting = operating_point(capacities, cores, rate, standstills=dict.fromkeys(range(len(members)), wait))
    # The search ends at a relative accuracy
    assert waiting.rates == pytest.approx(point.rates, rel=0.02, abs=0.005 * rate)
    added = [more - fewer for more, fewer in zip(waiting.loads, point.loads, strict=True)]
    assert sum(added) == pytest.approx(rate * wait, rel=0.05, abs=0.02 * sum(point.loads))


def test_a_host_that_stands_still_gets_requests_once_the_others_are_as_slow() -> None:
    low, middle, high = (
        operating_point([100.0, 100.0], [1, 1], rate, standstills={1: 0.03}) for rate in (40, 100, 190)
    )
    assert low.rates[1] == 0.0  # the other one answers within 17 ms
    assert 0.3 < middle.rates[1] / middle.rates[0] < 0.9
    assert high.rates[1] / high.rates[0] > 0.95
    p = middle.rates[1] / 100.0
    assert middle.loads[1] == pytest.approx(p / (1 - p) + middle.rates[1] * 0.03, rel=0.01)


def test_equal_servers_get_equal_rates() -> None:
    point = operating_point([100.0] * 4, [2] * 4, 300.0)
    assert point.rates == pytest.approx([75.0] * 4)
    assert len(set(point.loads)) == 1


def test_slow_cores_stay_empty_while_fast_cores_have_room() -> None:
    slow, fast = 400.0, 200.0  # 50 requests/s on each of eight cores against 200 on one
    low, high = (operating_point([slow, fast], [8, 1], rate) for rate in (60.0, 550.0))
    assert low.rates == pytest.approx((0.0, 60.0), abs=0.1)
    assert high.rates[0] > high.rates[1]


def test_shares_approach_capacity_as_load_rises() -> None:
    def distance(load: float) -> float:
        point = operating_point([400.0, 200.0], [8, 1], load * 600.0)
        return abs(point.rates[0] / sum(point.rates) - 2 / 3)

    distances = [distance(load) for load in (0.3, 0.6, 0.9, 0.97)]
    assert all(later < earlier for earlier, later in pairwise(distances))


def test_an_excessive_rate_is_split_like_the_highest_possible() -> None:
    full = operating_point([100.0, 300.0], [1, 4], MAX_UTILISATION * 400.0)
    over = operating_point([100.0, 300.0], [1, 4], 4000.0)
    assert sum(over.rates) == pytest.approx(4000.0)
    assert [rate / 4000.0 for rate in over.rates] == pytest.approx([r / sum(full.rates) for r in full.rates], rel=1e-3)
    assert all(map(math.isfinite, over.loads))


def test_requests_in_progress_are_limited() -> None:
    point = operating_point([100.0] * 10, [2] * 10, 1000.0, in_progress=20.0)
    assert point.loads == pytest.approx([2.0] * 10, rel=0.01)
    assert sum(point.rates) == pytest.approx(1000.0)


@pytest.mark.parametrize(("rate", "present"), [(0.0, math.inf), (-1.0, math.inf)])
def test_nothing_to_split(rate: float, present: float) -> None:
    assert operating_point([1.0, 2.0], [1, 1], rate, present) == OperatingPoint((0.0, 0.0), (0.0, 0.0))


def test_a_pool_without_requests_in_progress_still_has_shares() -> None:
    point = operating_point([100.0, 100.0], [1, 2], 10.0, in_progress=0.0)
    assert sum(point.rates) == pytest.approx(10.0)


def test_a_fraction_of_a_core_counts_as_one_slow_core() -> None:
    assert operating_point([40.0, 100.0], [0.4, 1], 60.0) == operating_point([40.0, 100.0], [1, 1], 60.0)
