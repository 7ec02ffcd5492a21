"""Tests of scores: the golden values from the thesis, missing metrics, custom scores, and absurd values."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.config import load_config
from lbdns.model.checked_configuration import build_score
from lbdns.scores import SCORES
from lbdns.scores.score import MAX_SCORE, Score, Term
from lbdns.scores.thesis import THESIS
from lbdns_shared.metric_catalogue import EXTRA_METRICS
from tests.collector.collector_fixtures import write_config

METRICS = ("run_queue", "cpu_idle", "gateway_ping", "requests_per_s", "scan_rate", "idle_workers")
ABSENT = None


def metrics(*values: float | None) -> dict[str, float]:
    return {name: value for name, value in zip(METRICS, values, strict=True) if value is not ABSENT}


@pytest.mark.parametrize(
    ("values", "score"),
    [
        ((0, 100, 0, 0, 0, 20), 80),
        ((3, 42.5, 12, 6.5, 10, 7), 66),
        ((44, 0, 410, 3, 250, 0), 5),
        ((0, 100, ABSENT, 0, 0, 20), 76),
    ],
)
def test_thesis_golden(values: tuple[float | None, ...], score: int) -> None:
    assert THESIS.of(metrics(*values)) == score


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("run_queue", 30, 0.0),
        ("run_queue", 30.1, 0.0),
        ("run_queue", 15, 9.8),
        ("gateway_ping", 400, 0.0),
        ("gateway_ping", 401, 0.0),
        ("gateway_ping", 100, 12.93),
        ("scan_rate", 200, 0.0),
        ("scan_rate", 201, 0.0),
        ("cpu_idle", 50, 9.79),
        ("requests_per_s", 100, 196.4),  # without an upper end: the 1999 rule
        ("idle_workers", 40, 39.36),
        ("cpu_idle", -5, 0.0),
        ("run_queue", -5, 19.6),
    ],
)
def test_thesis_terms(name: str, value: float, part: float) -> None:
    everything = dict.fromkeys(METRICS, 1.0) | {name: value}
    assert THESIS.parts(everything)[name] == pytest.approx(part)


def test_thesis_weights() -> None:
    assert sum(term.weight for term in THESIS.terms.values()) == pytest.approx(99.97)


@pytest.mark.parametrize("present", [{}, {"load1": 3.0}, {"busy_workers": 0.0, "net_rx": 1e9}])
def test_no_metric_of_the_score_is_nothing(present: dict[str, float]) -> None:
    assert THESIS.of(present) == 0
    assert THESIS.parts(present) == {}


@pytest.mark.parametrize("name", METRICS)
def test_one_metric_alone_counts_for_all(name: str) -> None:
    best = {"low": 0.0, "high": THESIS.terms[name].limit}[THESIS.terms[name].better]
    assert THESIS.of({name: best}) == 99


OWN = {"cpu_idle": Term(10, 100, "high"), "load1": Term(20, 8, "low"), "net_rx": Term(70, 1000, "high", cap=True)}


@pytest.mark.parametrize(
    ("present", "score"),
    [
        ({"cpu_idle": 100, "load1": 0, "net_rx": 1000}, 100),
        ({"cpu_idle": 100, "load1": 0, "net_rx": 5000}, 100),
        ({"cpu_idle": 50, "load1": 4, "net_rx": 500}, 50),
        ({"cpu_idle": 100}, 100),
        ({"cpu_idle": 100, "load1": 8}, 33),
    ],
)
def test_own_score(present: dict[str, float], score: int) -> None:
    assert Score(OWN).of(present) == score


def test_rounding_does_not_cost_a_point() -> None:
    terms = {name: Term(weight, 1, "high") for name, weight in {"a": 0.7, "b": 0.2, "c": 0.1}.items()}
    assert 0.7 + 0.2 + 0.1 < 1.0
    assert Score(terms).of({"a": 1, "b": 1, "c": 1}) == 1


def test_weight_nothing_is_left_out() -> None:
    score = Score({"cpu_idle": Term(0, 100, "high"), "load1": Term(10, 10, "low")})
    assert score.of({"cpu_idle": 100}) == 0
    assert score.of({"cpu_idle": 0, "load1": 0}) == 10


@pytest.mark.parametrize(("name", "expected"), [("thesis", 80), ("mine", 7)])
def test_configuration_picks(tmp_path: Path, name: str, expected: int) -> None:
    config = write_config(
        tmp_path,
        collector=f'listen = ["127.0.0.1:0"]\nscore = "{name}"',
        more="[score.mine]\ncpu_idle = { weight = 7, limit = 100 }\n",
    )
    assert build_score(load_config(config)).of(metrics(0, 100, 0, 0, 0, 20)) == expected


def test_equality_is_of_terms() -> None:
    assert Score(THESIS.terms) == THESIS
    assert Score(OWN) != THESIS


finite = st.floats(allow_nan=False, allow_infinity=False)
weights = st.floats(min_value=0, max_value=1e9)
limits = st.floats(min_value=1e-9, max_value=1e15)
terms = st.dictionaries(
    st.sampled_from(METRICS), st.builds(Term, weights, limits, st.sampled_from(["low", "high"]), st.booleans())
)


@given(terms, st.dictionaries(st.sampled_from(METRICS), finite))
def test_any_numbers_give_a_score(own: dict[str, Term], present: dict[str, float]) -> None:
    score = Score(own)
    value = score.of(present)
    assert type(value) is int
    assert 0 <= value <= MAX_SCORE
    assert all(math.isfinite(part) and part >= 0 for part in score.parts(present).values())


@given(st.dictionaries(st.sampled_from(METRICS), st.floats(min_value=-10, max_value=1e6)))
def test_the_score_is_the_sum_of_its_parts(present: dict[str, float]) -> None:
    cut_off = sum(THESIS.parts(present).values()) - THESIS.of(present)
    assert -1e-6 <= cut_off < 1


@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_built_in_scores_need_standard_metrics_only(score: Score) -> None:
    assert EXTRA_METRICS.keys().isdisjoint(score.terms)
