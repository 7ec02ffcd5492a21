"""Tests of adaptive weights: limits that are never exceeded, and a search that finds better weights if they exist."""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.process.apply_configuration import apply
from lbdns.scores.score import Score, Term
from lbdns_collector.reports.adaptive_weights import WeightSearch, WeightSearchSettings
from lbdns_collector.reports.collector import Collector
from lbdns_collector.reports.report_table import ReportTable
from lbdns_collector.status.status_document import build_status
from lbdns_collector.status.status_source import status_inputs
from lbdns_shared.errors import ConfigError
from tests.collector.collector_fixtures import HOSTS, IDLE, KEY, WALL, FakeSource, datagram, make_farm, until

TERMS: Mapping[str, Term] = {
    "run_queue": Term(40, 20, "low"),
    "cpu_idle": Term(30, 100, "high", cap=True),
    "idle_workers": Term(20, 20, "high"),
    "requests_per_s": Term(10, 50, "high"),
}
PERIOD = 10.0
#: The weights at which the made-up farm responds fastest
IDEAL: Mapping[str, float] = {"run_queue": 22.0, "cpu_idle": 50.0, "idle_workers": 12.0, "requests_per_s": 16.0}


@pytest.mark.parametrize("value", [5e-324, 1e-300, 1.7e308])
def test_absurd_values_of_one_member_raise_no_errors(value: float) -> None:
    for absurd in (True, False), (False, True):  # in the turns with the old and with the new weights
        search = adaptive()
        for second in range(20 * int(PERIOD)):
            metrics = {"busy_workers": 2.0, "requests_per_s": 100.0}
            search.observe({"busy_workers": 1.0, "requests_per_s": 100.0}, 1.0, float(second))
            if absurd[second // int(PERIOD) % 4 in (1, 2)]:
                metrics = {"busy_workers": value, "requests_per_s": 100.0}
            search.observe(metrics, 60.0, float(second))


def adaptive(seed: int = 1, factor: float = 2.0, terms: Mapping[str, Term] = TERMS) -> WeightSearch:
    return WeightSearch(terms, WeightSearchSettings(factor, PERIOD), Random(seed))


def weights_of(score: Score) -> dict[str, float]:
    return {metric: term.weight for metric, term in score.terms.items()}


def surface(weights: Mapping[str, float]) -> float:
    """Return the response time (in seconds), which is shortest with the weights IDEAL."""
    return 0.05 * (1 + sum(abs(weights[metric] - IDEAL[metric]) for metric in IDEAL) / 50)


def report(response: float, rate: float = 100.0) -> dict[str, float]:
    """Return the metrics of a member whose requests take ``response`` seconds, including the agent's own request."""
    return {"busy_workers": 1.0 + rate * response, "requests_per_s": rate + 1.0}


def live(found: WeightSearch, rounds: int, response: Callable[[Mapping[str, float], float], float]) -> list[str]:
    """Run the search for ``rounds`` rounds of 4 periods on a farm whose response time is ``response(weights, time)``.

    Returns the accepted changes.
    """
    news = []
    for second in range(int(rounds * 4 * PERIOD) + 1):
        found.observe(report(response(weights_of(found.score), second)), 1.0, float(second))
        news += found.take_changes()
    return news


def test_nothing_is_tried_before_the_configured_weights_had_their_turn() -> None:
    found = adaptive()
    scores = []
    for second in range(int(4 * PERIOD)):
        found.observe(report(0.05), 1.0, float(second))
        scores.append(weights_of(found.score))
    configured = {metric: term.weight for metric, term in TERMS.items()}
    turns = [scores[int(turn * PERIOD + PERIOD / 2)] for turn in range(4)]
    assert turns[0] == turns[3] == configured
    assert turns[1] == turns[2] != configured


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_shorter_responses(seed: int) -> None:
    found = adaptive(seed)
    before = surface(found.weights)
    news = live(found, 150, lambda weights, now: surface(weights))
    after = surface(found.weights)
    assert before - after > 0.7 * (before - surface(IDEAL)), "most of what there was to gain"
    assert 0 < found.gain <= 1 - after / before + 1e-6, "measured when the configured weights were last tried"
    assert len(news) == found.accepted > 0


def test_it_finds_shorter_responses_despite_noise() -> None:
    chance = Random(5)
    found = adaptive(7)
    before = surface(found.weights)
    live(found, 200, lambda weights, now: surface(weights) * math.exp(chance.gauss(0, 0.1)))
    assert surface(found.weights) < 0.9 * before


def test_where_weights_make_no_difference_it_claims_no_gain() -> None:
    chance = Random(6)
    slow = [0.0]

    def response(weights: Mapping[str, float], now: float) -> float:
        # Noise that persists for a while, like that of a queue
        slow[0] = 0.9 * slow[0] + chance.gauss(0, 0.1)
        return 0.05 * math.exp(slow[0])

    found = adaptive(3)
    live(found, 200, response)
    assert found.trials > 70
    assert found.accepted < 0.1 * found.trials
    assert found.gain < 0.1


def test_a_change_in_load_is_not_mistaken_for_a_gain() -> None:
    found = adaptive(3)
    live(found, 60, lambda weights, now: 0.05 * math.exp(0.3 * math.sin(now / 3000)))  # a slow daily rise and fall
    assert found.gain == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_when_the_configured_weights_are_better_again_they_come_back(seed: int) -> None:
    found = adaptive(seed)
    usual = dict(found.weights)
    live(found, 60, lambda weights, now: surface(weights))
    assert dict(found.weights) != usual
    turned = 60 * 4 * PERIOD + PERIOD

    def since(weights: Mapping[str, float]) -> float:
        return 0.05 * (1 + sum(abs(weights[metric] - usual[metric]) for metric in usual) / 50)

    news = []
    for second in range(int(100 * 4 * PERIOD)):
        found.observe(report(since(weights_of(found.score))), 1.0, turned + second)
        news += found.take_changes()
    assert any("restored the configured weights" in line for line in news)
    assert dict(found.weights) == usual
    assert found.gain == 0.0


def test_each_accepted_change_is_reported_once() -> None:
    found = adaptive()
    news = live(found, 80, lambda weights, now: surface(weights))
    assert all(line.startswith("weights: ") and " -> " in line for line in news)
    assert found.take_changes() == []


def test_the_same_seed_does_the_same() -> None:
    first, second, other = adaptive(4), adaptive(4), adaptive(5)
    told = [live(found, 60, lambda weights, now: surface(weights)) for found in (first, second, other)]
    assert told[0] == told[1] != told[2]
    assert first.weights == second.weights


def test_without_requests_nothing_is_judged() -> None:
    found = adaptive()
    for second in range(1000):
        found.observe({"busy_workers": 1.0, "requests_per_s": 1.0}, 1.0, float(second))
    for second in range(1000, 2000):
        found.observe({}, 1.0, float(second))
    assert found.trials == found.accepted == 0
    assert weights_of(adaptive().score) == dict(found.weights)


@pytest.mark.parametrize("terms", [{}, {"cpu_idle": Term(50, 100, "high")},
                                   {"cpu_idle": Term(50, 100, "high"), "load1": Term(0, 8, "low")}])  # fmt: skip
def test_where_there_is_nothing_to_weigh_against_nothing_moves(terms: Mapping[str, Term]) -> None:
    found = adaptive(terms=terms)
    live(found, 5, lambda weights, now: 0.05)
    assert found.score == Score(terms)
    assert found.trials == 0


@given(
    weights=st.lists(st.floats(0.01, 1000), min_size=2, max_size=6),
    factor=st.floats(1.0, 10.0),
    seed=st.integers(0, 1000),
    responses=st.lists(st.floats(1e-4, 10.0), min_size=8, max_size=60),
)
def test_weights_stay_within_bounds_and_keep_their_sum(
    weights: list[float], factor: float, seed: int, responses: list[float]
) -> None:
    terms = {f"metric{i}": Term(weight, 10.0, "low") for i, weight in enumerate(weights)}
    found = WeightSearch(terms, WeightSearchSettings(factor, PERIOD), Random(seed))
    for at, response in enumerate(responses):
        # One report per turn, which covers ten seconds: enough requests to count
        found.observe(report(response), PERIOD, at * PERIOD + PERIOD / 2)
        for now in (found.weights, weights_of(found.score)):
            assert math.isclose(sum(now.values()), sum(weights), rel_tol=1e-9)
            for metric, weight in now.items():
                usual = terms[metric].weight
                assert usual / factor * (1 - 1e-9) <= weight <= usual * factor * (1 + 1e-9)


# In the report table and the collector


def test_the_table_scores_with_the_weights_on_trial() -> None:
    # Terms with large weights and different values, so that moving any weight changes the score
    terms = {metric: Term(100 * term.weight, term.limit, term.better) for metric, term in TERMS.items()}
    table = ReportTable(HOSTS, [KEY], Score(terms))
    table.adaptive = adaptive(terms=terms)
    metrics = {"run_queue": 0.0, "cpu_idle": 50.0, "idle_workers": 5.0, "requests_per_s": 0.0}
    scores = []
    for second in range(int(4 * PERIOD)):
        at = WALL + second
        assert table.accept(datagram(seq=second + 1, at=at, metrics=metrics), "127.0.0.18", second, at) == "accepted"
        scores.append(table.snapshot().readings["gandalf.hobbit"].score)
        assert scores[-1] == table.adaptive.score.of(metrics)
    assert len(set(scores)) == 2, "the configured weights, and those that are tried"


async def test_it_is_off_unless_configured_and_survives_a_reload_of_the_same_score(tmp_path: Path) -> None:
    listen = 'listen = ["127.0.0.1:0"]\n'
    collector = Collector(make_farm(tmp_path, collector=listen), ())
    assert collector.adapted is None
    await collector.start(lambda snapshot: None)

    async def use(text: str) -> None:
        await apply([collector], CheckedConfiguration(make_farm(tmp_path, collector=text), ()))

    try:
        await use(listen + "adapt = true\nadapt_factor = 3")
        first = collector.table.adaptive
        assert first is not None
        assert first.settings == WeightSearchSettings(3.0, 60.0)
        await use(listen + "adapt = true\nadapt_factor = 3.0")
        assert collector.table.adaptive is first
        await use(listen + "adapt = true\nadapt_period = 30")
        assert collector.table.adaptive not in (None, first)
        await use(listen)
        assert collector.table.adaptive is None
    finally:
        await collector.stop()


async def test_accepted_changes_are_logged_and_shown_in_the_status(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    farm = make_farm(tmp_path, collector='listen = ["127.0.0.1:0"]\nadapt = true')
    collector = Collector(farm, ())
    await collector.start(lambda snapshot: None)
    try:
        found = collector.table.adaptive
        assert found is not None
        for second in range(0, 8000, 10):
            usual = weights_of(found.score) == weights_of(Score(found.configured))
            found.observe(report(0.2 if usual else 0.1), 10.0, float(second))
        assert found.accepted
        report_of = datagram(key=None, at=time.time(), metrics=IDLE)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind(("127.0.0.18", 0))
            sender.sendto(report_of, (collector.addresses[0].host, collector.addresses[0].port))
        await until(lambda: any("score headroom: weights: " in message for message in caplog.messages))
        assert sum("score headroom" in message for message in caplog.messages) == found.accepted
    finally:
        await collector.stop()
    source = FakeSource(farm)
    source.adapted = collector.adapted
    told = build_status(status_inputs(source))["adaptive"]
    assert told["score"] == "headroom"
    assert told["accepted"] == found.accepted
    assert told["weights"] == {metric: round(weight, 2) for metric, weight in found.weights.items()}
    source.adapted = None
    assert "adaptive" not in build_status(status_inputs(source))


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("adapt = 1", "adapt"),
        ("adapt_factor = 0.5", "adapt_factor"),
        ("adapt_period = 1", "adapt_period"),
        ('connect = "http://127.0.0.1:1"\nadapt = true', "the followed collector computes the scores"),
    ],
)
def test_bad_settings_are_found(tmp_path: Path, keys: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make_farm(tmp_path, collector=keys)
