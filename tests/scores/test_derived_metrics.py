from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.scores.derived_metrics import DERIVED_METRICS, with_derived_metrics
from lbdns_shared.metric_catalogue import CATALOGUE


@pytest.mark.parametrize(
    ("metrics", "capacity", "derived"),
    [
        ({}, 0.0, {}),
        ({"run_queue": 3.0}, 0.0, {"run_queue_per_core": 3.0}),
        ({"run_queue": 3.0, "cpu_count": 4.0}, 0.0, {"run_queue_per_core": 0.75}),
        ({"run_queue": 3.0, "cpu_count": 0.0}, 0.0, {}),
        ({"busy_workers": 4.0, "idle_workers": 9.0}, 0.0, {"idle_worker_share": 75.0}),  # one serves the status page
        ({"busy_workers": 1.0, "idle_workers": 0.0}, 0.0, {"idle_worker_share": 0.0}),
        ({"busy_workers": 0.0, "idle_workers": 0.0}, 0.0, {}),
        ({"idle_workers": 20.0}, 0.0, {}),
        ({"requests_per_s": 51.0}, 0.0, {}),
        ({"requests_per_s": 51.0}, 100.0, {"capacity_used": 50.0}),  # one request was the agent's own
        ({"requests_per_s": 0.0}, 100.0, {"capacity_used": 0.0}),
        ({"requests_per_s": 401.0}, 100.0, {"capacity_used": 400.0}),
    ],
)
def test_derived_metrics(metrics: dict[str, float], capacity: float, derived: dict[str, float]) -> None:
    assert with_derived_metrics(metrics, capacity, 1.0) == {**metrics, **derived}


def test_an_agent_cannot_report_them() -> None:
    assert with_derived_metrics(dict.fromkeys(DERIVED_METRICS, 1.0), 0.0, 1.0) == {}


def test_their_names_are_new() -> None:
    assert not DERIVED_METRICS.keys() & CATALOGUE.keys()


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(st.dictionaries(st.sampled_from(list(CATALOGUE)), NUMBERS), st.floats(0, 1e300), st.floats(0.02, 1e9))
def test_whatever_is_reported_they_are_finite_and_not_negative(
    metrics: dict[str, float], capacity: float, interval: float
) -> None:
    found = with_derived_metrics(metrics, capacity, interval)
    assert all(math.isfinite(found[name]) and found[name] >= 0 for name in DERIVED_METRICS if name in found)
