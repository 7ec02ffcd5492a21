"""Tests of report figures: the native extension computes the same capacities, derived metrics and scores as Python."""

from __future__ import annotations

from types import MappingProxyType

from hypothesis import example, given
from hypothesis import strategies as st

from lbdns.scores.headroom import HEADROOM
from lbdns.scores.score import Score, Term
from lbdns.scores.thesis import THESIS
from lbdns_collector.reports.report_figures import NativeFigures, PythonFigures
from lbdns_shared.report import MIN_INTERVAL
from tests.needs import needs

pytestmark = needs(native=True)

USED = (
    "cpu_count", "cpu_idle", "httpd_cpu_seconds", "requests_total", "requests_per_s", "run_queue", "busy_workers",
    "idle_workers", "run_queue_per_core", "idle_worker_share", "capacity_used", "scan_rate", "gateway_ping",
)  # fmt: skip
values = st.floats(0, 300) | st.integers(0, 200).map(float) | st.floats(allow_nan=False, allow_infinity=False)
metrics = st.dictionaries(st.sampled_from(USED), values)
terms = st.builds(Term, st.floats(0, 50), st.floats(0.001, 1e6), st.sampled_from(["low", "high"]), st.booleans())
scores = st.sampled_from([HEADROOM, THESIS]) | st.dictionaries(st.sampled_from(USED), terms).map(Score)


def load(requests: float, cpu: float) -> dict[str, float]:
    return {"requests_total": requests, "httpd_cpu_seconds": cpu, "cpu_count": 4.0, "requests_per_s": 30.0}


@given(
    st.lists(st.tuples(metrics, st.floats(MIN_INTERVAL, 86_400), st.floats(-1, 1000) | st.just(1.0)), max_size=8),
    scores,
    st.none() | scores,
)
@example([(load(100.0 * n, 1.5 * n), 1.0, 1.0) for n in range(8)], HEADROOM, THESIS)
@example([(load(100.0 * n, 0.0), 1.0, 1.0) for n in range(8)], HEADROOM, None)
@example([({"requests_total": 50.0 * n, "cpu_idle": 60.0}, 2.0, 5.0) for n in range(8)], HEADROOM, None)
def test_both_compute_the_same(
    reports: list[tuple[dict[str, float], float, float]], score: Score, shadow: Score | None
) -> None:
    python, native = PythonFigures(score, shadow), NativeFigures(score, shadow)
    estimates, now = (python.estimate(), native.estimate()), 1000.0
    for reported, interval, seconds in reports:
        now += seconds
        found = dict(reported), dict(reported)
        for estimate, each in zip(estimates, found, strict=True):
            estimate.derive(each, interval, now)
        assert repr(found[0]) == repr(found[1])  # with the order of the metrics
        assert python.scores(found[0]) == native.scores(found[1])


def test_an_estimate_is_reached() -> None:
    """The examples above compare nothing unless the capacity becomes known."""
    estimate, found = NativeFigures(HEADROOM, None).estimate(), {}
    for number in range(8):
        found = load(100.0 * number, 1.5 * number)
        estimate.derive(found, 1.0, 1000.0 + number)
    assert 0 < found["capacity_used"] < 100


def test_scores_of_a_read_only_map() -> None:
    assert NativeFigures(THESIS, HEADROOM).scores(MappingProxyType({"run_queue": 0.0})) == (99, 0)


def test_other_scores() -> None:
    figures = NativeFigures(THESIS, None).using(HEADROOM, THESIS)
    assert isinstance(figures, NativeFigures)
    assert (figures.score, figures.shadow) == (HEADROOM, THESIS)
