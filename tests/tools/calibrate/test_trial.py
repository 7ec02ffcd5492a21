"""One metric that decides alone, and the ranges of metrics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_collector.score import Score
from lbdns_tools.calibrate.trial import alone, percentile, weighable


@pytest.mark.parametrize(
    ("metric", "worse", "better"),
    [("run_queue", 3.0, 2.0), ("cpu_idle", 42.51, 42.52), ("gateway_ping", 400.0, 0.2), ("idle_workers", 0.0, 1.0),
     ("disk_await", 0.35, 0.34), ("scan_rate", 50_000.0, 49_999.0)],
)  # fmt: skip
def test_the_smallest_difference_of_the_metric_decides_and_nothing_else_does(
    metric: str, worse: float, better: float
) -> None:
    trial = alone(metric)
    assert (trial.name, trial.policy) == (metric, "best_score")
    assert trial.terms is not None
    score = Score(trial.terms)
    assert score.of({metric: better, "mem_available": 1.0}) > score.of({metric: worse, "mem_available": 99.0})


def test_what_says_nothing_about_load_is_no_term() -> None:
    reported = {"cpu_count": 2.0, "net_rx": 5.0, "my_own": 3.0, "load1": 0.5, "run_queue": 1.0}
    assert weighable(reported) == ["run_queue", "load1"]
    with pytest.raises(KeyError):
        alone("cpu_count")


def test_percentile() -> None:
    assert percentile([float(n) for n in range(1, 201)]) == 199.0
    assert percentile([5.0]) == 5.0
    with pytest.raises(ValueError, match="no values"):
        percentile([])


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=300))
def test_all_but_a_hundredth_are_at_most_the_percentile(values: list[float]) -> None:
    found = percentile(values)
    assert found in values
    assert sum(value > found for value in values) <= 0.01 * len(values)
