"""The weight that HAProxy receives: from 100 (idle) to 1 (full), and never higher because of load."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.agent_check.free_capacity import SMOOTHING, FreeCapacity, free_capacity

IDLE = {"cpu_idle": 100.0, "run_queue": 0.0, "cpu_count": 2.0, "idle_workers": 20.0, "busy_workers": 0.0}


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (IDLE, 1.0),
        ({}, None),
        ({"load1": 3.0, "busy_workers": 3.0}, None),
        ({**IDLE, "cpu_idle": 42.0}, 0.42),
        ({**IDLE, "run_queue": 2.0}, 0.75),
        ({**IDLE, "run_queue": 8.0}, 0.0),
        ({**IDLE, "run_queue": 80.0}, 0.0),
        ({**IDLE, "idle_workers": 5.0, "busy_workers": 15.0}, 0.25),
        ({**IDLE, "idle_workers": 0.0}, 1.0),  # no workers at all: nothing is known about them
        ({"run_queue": 1.0, "cpu_count": 0.1}, 0.75),  # a quota below one core counts as one core
        ({"cpu_idle": 100.4}, 1.0),
    ],
)
def test_scarcest_resource(metrics: dict[str, float], expected: float | None) -> None:
    found = free_capacity(metrics)
    assert found == (None if expected is None else pytest.approx(expected))


SAMPLES = st.fixed_dictionaries(
    {
        "cpu_idle": st.floats(0, 100),
        "run_queue": st.floats(0, 1000),
        "cpu_count": st.floats(0.1, 128),
        "idle_workers": st.floats(0, 1000),
        "busy_workers": st.floats(1, 1000),
    }
)


@given(SAMPLES, st.sampled_from(["cpu_idle", "run_queue", "idle_workers", "busy_workers"]), st.floats(0, 100))
def test_more_load_never_increases_it(metrics: dict[str, float], name: str, step: float) -> None:
    more = {**metrics, name: metrics[name] + (step if name in ("run_queue", "busy_workers") else -step)}
    more = {each: max(0.0, value) for each, value in more.items()}
    before, after = free_capacity(metrics), free_capacity(more)
    assert before is not None
    assert after is not None
    assert 0 <= after <= before <= 1


@given(st.lists(SAMPLES, min_size=1))
def test_percentages_are_from_1_to_100(samples: list[dict[str, float]]) -> None:
    capacity = FreeCapacity()
    assert capacity.percent is None
    for second, metrics in enumerate(samples):
        capacity.observe(metrics, float(second))
        assert capacity.percent is not None
        assert 1 <= capacity.percent <= 100


def test_the_average_follows_within_seconds() -> None:
    capacity = FreeCapacity()
    capacity.observe(IDLE, 0.0)
    assert capacity.percent == 100
    capacity.observe({**IDLE, "cpu_idle": 0.0}, SMOOTHING)
    assert capacity.percent == round(100 * math.exp(-1))
    capacity.observe({**IDLE, "cpu_idle": 0.0}, 20 * SMOOTHING)
    assert capacity.percent == 1
    capacity.observe({}, 21 * SMOOTHING)
    assert capacity.percent is None
