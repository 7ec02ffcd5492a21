"""The histogram of durations."""

from __future__ import annotations

import pytest

from lbdns.counting.response_times import BOUNDS, ResponseTimes, cumulative


def test_each_query_counts_with_the_mean_of_its_wake_up() -> None:
    durations = ResponseTimes()
    durations.add(64, 64 * 3e-6)
    durations.add(1, 3e-4)
    durations.add(2, 1.0)
    assert durations.queries == 67
    assert durations.total == pytest.approx(64 * 3e-6 + 3e-4 + 1.0)
    buckets = dict(cumulative(durations.counts))
    assert buckets["2e-06"] == 0
    assert buckets["5e-06"] == 64
    assert buckets["0.0002"] == 64
    assert buckets["0.0005"] == 65
    assert buckets["0.1"] == 65
    assert buckets["+Inf"] == 67


def test_sources_are_included_until_they_end() -> None:
    durations = ResponseTimes()
    durations.add(1, 1e-6)
    counts = [0] * (len(BOUNDS) + 1)

    def source() -> tuple[list[int], float]:
        return counts, 0.25

    durations.begin_source(source)
    counts[3] += 5
    assert (durations.queries, durations.counts[3]) == (6, 5)
    counts[3] += 1
    durations.end_source(source)
    counts[3] += 100
    assert (durations.queries, durations.counts[3]) == (7, 6)
    assert durations.total == pytest.approx(0.25 + 1e-6)


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bound_belongs_to_its_bucket(bound: float) -> None:
    durations = ResponseTimes()
    durations.add(1, bound)
    durations.add(1, bound * 1.01)
    buckets = dict(cumulative(durations.counts))
    assert buckets[repr(bound)] == 1
    assert list(buckets.values()) == sorted(buckets.values())
    assert list(buckets)[-1] == "+Inf"


def test_bounds_ascend() -> None:
    assert list(BOUNDS) == sorted(set(BOUNDS))
