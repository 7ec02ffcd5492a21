"""Tests of the score ``headroom``: idle members, full members, and that it never rises with load."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.scores import DEFAULT_SCORE, SCORES
from lbdns.scores.derived_metrics import with_derived_metrics
from lbdns.scores.headroom import HEADROOM
from lbdns.scores.thesis import THESIS

CORES, CAPACITY = 2.0, 200.0
IDLE = {
    "run_queue": 0.0, "cpu_idle": 100.0, "gateway_ping": 0.0, "requests_per_s": 1.0, "scan_rate": 0.0,
    "busy_workers": 1.0, "idle_workers": 20.0,
}  # fmt: skip
FULL = {
    "run_queue": 8.0, "cpu_idle": 0.0, "gateway_ping": 400.0, "requests_per_s": 201.0, "scan_rate": 200.0,
    "busy_workers": 256.0, "idle_workers": 0.0,
}  # fmt: skip
RISING = ("run_queue", "gateway_ping", "requests_per_s", "scan_rate", "busy_workers")
FALLING = ("cpu_idle", "idle_workers")


def score(metrics: dict[str, float], capacity: float = CAPACITY) -> int:
    return HEADROOM.of(with_derived_metrics({"cpu_count": CORES, **metrics}, capacity, 1.0))


def test_it_is_the_default() -> None:
    assert DEFAULT_SCORE == "headroom"
    assert SCORES[DEFAULT_SCORE] is HEADROOM


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 100),
        ({"run_queue": 2.0}, 95),
        ({"cpu_idle": 50.0}, 90),
        ({"gateway_ping": 100.0}, 95),
        ({"requests_per_s": 101.0}, 90),
        ({"scan_rate": 100.0}, 97),
        ({"busy_workers": 21.0}, 90),
        (FULL, 0),
        ({"requests_per_s": 5000.0, "cpu_idle": 0.0, "idle_workers": 0.0}, 41),  # the score "thesis" says 9,859
    ],
)
def test_golden_values(changes: dict[str, float], expected: int) -> None:
    assert score(IDLE | changes) == expected


@pytest.mark.parametrize("name", [*RISING, *FALLING])
def test_a_missing_metric_neither_helps_nor_harms(name: str) -> None:
    for metrics, expected in ((IDLE, 100), (FULL, 0)):
        assert score({metric: value for metric, value in metrics.items() if metric != name}) == expected


def test_without_metrics_it_is_nothing() -> None:
    assert HEADROOM.of({}) == 0


def test_the_weights_are_in_the_proportions_of_the_thesis() -> None:
    ours = [term.weight for term in HEADROOM.terms.values()]
    theirs = [term.weight for term in THESIS.terms.values()]
    assert [a / b for a, b in zip(ours, theirs, strict=True)] == pytest.approx([100 / 99.97] * 6)
    assert sum(ours) == pytest.approx(100)


VALUES = st.floats(0, 1000)
REPORTS = st.fixed_dictionaries({}, optional=dict.fromkeys([*RISING, *FALLING], VALUES))
ANYTHING = st.floats(allow_nan=False, allow_infinity=False)


@given(REPORTS, st.sampled_from([*RISING, *FALLING]), VALUES, st.sampled_from([0.0, 1.0, 50.0, 1e6]))
def test_it_never_rises_with_load(metrics: dict[str, float], name: str, value: float, capacity: float) -> None:
    before = metrics.get(name)
    if before is None:
        return
    fuller = max(before, value) if name in RISING else min(before, value)
    assert score(metrics | {name: fuller}, capacity) <= score(metrics, capacity)


@given(st.dictionaries(st.sampled_from([*RISING, *FALLING, "cpu_count", "load1"]), ANYTHING), st.floats(0, 1e300))
def test_it_stays_within_its_range(metrics: dict[str, float], capacity: float) -> None:
    assert 0 <= HEADROOM.of(with_derived_metrics(metrics, capacity, 1.0)) <= 100
