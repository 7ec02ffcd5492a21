"""Tests of trials in which a single metric determines the score."""

from __future__ import annotations

import pytest

from lbdns.scores.score import Score
from lbdns_tools.calibrate.calibration_trial import alone, weighable


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


def test_a_metric_without_a_better_direction_is_not_a_term() -> None:
    reported = {"cpu_count": 2.0, "net_rx": 5.0, "my_own": 3.0, "load1": 0.5, "run_queue": 1.0}
    assert weighable(reported) == ["run_queue", "load1"]
    with pytest.raises(KeyError):
        alone("cpu_count")
