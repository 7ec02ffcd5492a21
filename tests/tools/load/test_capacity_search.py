"""Checks that searches find a known limit, tolerate a single outlier, and always terminate."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lbdns_tools.load.capacity_search import MAX_TRIALS, FailureCriteria, frontier, highest_count, highest_rate
from lbdns_tools.load.request_tally import RequestTally
from lbdns_tools.load.run_statistics import RunStatistics, run_statistics


def ran(rate: float, limit: float, latency: float = 0.01, saturated: str = "") -> RunStatistics:
    """Return the statistics of 100 requests sent at ``rate`` to a server that serves at most ``limit`` requests/s."""
    tally = RequestTally()
    for place in range(100):
        tally.add(0.0, latency, 0.0, 0.001, 1000, "a", "" if (place + 0.5) / 100 * rate < limit else "refused")
    return run_statistics(tally, 100 / rate, saturated)


def server(limit: float, seen: list[float] | None = None) -> Callable[[float], RunStatistics]:
    def attempt(rate: float) -> RunStatistics:
        if seen is not None:
            seen.append(rate)
        return ran(rate, limit)

    return attempt


@pytest.mark.parametrize("limit", [12.0, 137.0, 990.0, 4321.0])
@pytest.mark.parametrize("accuracy", [0.01, 0.1])
def test_a_known_limit_is_found(limit: float, accuracy: float) -> None:
    found = highest_rate(server(limit), FailureCriteria(), 10.0, 10_000.0, accuracy)
    assert found.highest is not None
    # 1 of 100 requests may fail, so a server of this kind passes up to 98.5 % of what it was asked for
    assert limit / (1 + accuracy) <= found.highest <= limit / 0.985
    assert found.ending == "criteria"
    assert "errors" in found.why
    assert len(found.trials) < 40


def test_doubled_first_and_then_halved_in() -> None:
    seen: list[float] = []
    highest_rate(server(500.0, seen), FailureCriteria(), 100.0, 3200.0, 0.2)
    assert seen[:4] == [100.0, 200.0, 400.0, 800.0]
    assert seen[3:6] == [800.0] * 2 + [600.0]  # failed, failed again, so the middle
    assert seen[-1] in (400.0, 500.0)  # what was found, once more


def test_the_ends_of_the_range() -> None:
    top = highest_rate(server(1e6), FailureCriteria(), 10.0, 300.0)
    assert (top.highest, top.ending, top.why) == (300.0, "top", "")
    bottom = highest_rate(server(1.0), FailureCriteria(), 10.0, 300.0)
    assert (bottom.highest, bottom.figures, bottom.ending) == (None, None, "bottom")
    assert len(bottom.trials) == 2
    same = highest_rate(server(1e6), FailureCriteria(), 300.0, 300.0)
    assert same.highest == 300.0


def test_one_hiccup_is_no_limit() -> None:
    seen: list[float] = []

    def attempt(rate: float) -> RunStatistics:
        seen.append(rate)
        return ran(rate, 1.0 if len(seen) == 2 else 500.0)

    found = highest_rate(attempt, FailureCriteria(), 100.0, 400.0)
    assert found.highest == 400.0
    assert [trial.why != "" for trial in found.trials] == [False, True, False, False, False, False]


def test_what_holds_only_once_is_not_found() -> None:
    seen: list[float] = []

    def attempt(rate: float) -> RunStatistics:
        seen.append(rate)
        return ran(rate, 1e6 if seen.count(rate) == 1 else 210.0)

    found = highest_rate(attempt, FailureCriteria(), 100.0, 800.0, 0.05)
    assert found.highest is not None
    assert found.highest <= 210.0 / 0.985
    assert found.ending == "criteria"


def test_the_generators_own_limit_is_not_the_servers() -> None:
    found = highest_rate(
        lambda rate: ran(rate, 250.0, saturated="all processors busy" if rate > 250 else ""),
        FailureCriteria(),
        100.0,
        800.0,
    )
    assert (found.highest, found.ending, found.why) == (200.0, "generator", "all processors busy")
    assert found.trials[-1].value == 400.0


def test_a_server_without_any_order_ends_too() -> None:
    seen: list[float] = []

    def attempt(rate: float) -> RunStatistics:
        seen.append(rate)
        return ran(rate, 0.0 if len(seen) % 3 else 1e9)

    found = highest_rate(attempt, FailureCriteria(), 1.0, 1e9, 0.001)
    assert len(found.trials) <= MAX_TRIALS
    bisected: list[float] = []

    def unlike(rate: float) -> RunStatistics:
        """Succeed when a rate is tried for the first time, and fail whenever the same rate is tried again."""
        bisected.append(rate)
        return ran(rate, 1e9 if bisected.count(rate) == 1 else 0.0)

    assert len(highest_rate(unlike, FailureCriteria(), 1.0, 1e9, 0.001).trials) <= MAX_TRIALS


def test_numbers_are_whole() -> None:
    seen: list[int] = []

    def attempt(count: int) -> RunStatistics:
        seen.append(count)
        return ran(100.0, 1e6 if count <= 77 else 10.0)

    found = highest_count(attempt, FailureCriteria(), 100.0, 1, 1000, 0.001)
    assert found.highest == 77
    assert all(isinstance(count, int) for count in seen)


def test_a_frontier_has_a_limit_for_each_number() -> None:
    edges = frontier(lambda count, rate: ran(rate, 10_000 / count), FailureCriteria(), (10, 20, 50), 10.0, 5000.0, 0.01)
    assert [edge.connections for edge in edges] == [10, 20, 50]
    for edge in edges:
        assert edge.found.highest == pytest.approx(10_000 / edge.connections, rel=0.02)


@pytest.mark.parametrize(
    ("criteria", "why"),
    [
        (FailureCriteria(), ""),
        (FailureCriteria(limit_s=0.05), "p99 100 ms"),
        (FailureCriteria(limit_s=0.2), ""),
        (FailureCriteria(percentile=50, limit_s=0.05), "p50 100 ms"),
        (FailureCriteria(error_percent=0.5), "1 % errors"),
        (FailureCriteria(achieved_share=0.995), "only 99/s of 100/s"),
    ],
)
def test_criteria(criteria: FailureCriteria, why: str) -> None:
    assert criteria.failing(ran(100.0, 99.0, latency=0.1), 100.0) == why


def test_no_result_fails() -> None:
    assert FailureCriteria(100.0, achieved_share=0.0).failing(run_statistics(RequestTally(), 1.0), 1.0) == "no result"


def test_criteria_are_stated() -> None:
    assert str(FailureCriteria(limit_s=0.2)) == "errors > 1 %, p99 > 200 ms, answered < 95 % of the rate"
    assert "p99" not in str(FailureCriteria())


def test_what_can_not_be_searched() -> None:
    for low, high, accuracy in ((0, 10, 0.1), (20, 10, 0.1), (1, float("inf"), 0.1), (1, 10, 0.0), (1, 10, 2.0)):
        with pytest.raises(ValueError, match=r"the range must start|the accuracy"):
            highest_rate(server(1.0), FailureCriteria(), low, high, accuracy)


def test_criteria_that_can_not_be() -> None:
    with pytest.raises(ValueError, match="50, 90, 95, 99"):
        FailureCriteria(percentile=98)
    with pytest.raises(ValueError, match="errors"):
        FailureCriteria(error_percent=101)
    with pytest.raises(ValueError, match="achieved"):
        FailureCriteria(achieved_share=1.1)
    with pytest.raises(ValueError, match="latency"):
        FailureCriteria(limit_s=-1)
