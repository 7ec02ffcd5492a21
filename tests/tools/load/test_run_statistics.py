"""Compares statistics with values calculated by hand. Without measurements, results are missing rather than 0."""

from __future__ import annotations

import json

import pytest

from lbdns_tools.load.request_tally import RequestTally
from lbdns_tools.load.run_statistics import COUNTS, NUMBERS, run_statistics, spread


def tally(latencies: list[float], error: str = "", server: str = "a") -> RequestTally:
    made = RequestTally()
    for place, latency in enumerate(latencies):
        made.add(place / 10, latency, 0.001, 0.002, 125_000, server, error)
    return made


def test_figures_worked_out_by_hand() -> None:
    made = tally([0.1] * 6 + [0.3] * 2)
    made.merge(tally([1.0, 1.0], "5xx", "b"))
    found = run_statistics(made, 5.0)
    assert (found.requests, found.ok, found.failed) == (10, 8, 2)
    assert found.connections_per_s == 2.0
    assert found.requests_per_s == 1.6
    assert found.error_percent == 20.0
    assert found.mbit_per_s == pytest.approx(2.0)  # 10 times a Mbit in 5 s
    assert found.mean_s == pytest.approx(0.32)
    assert found.littles_load_factor == pytest.approx(0.64)
    assert found.mean_s is not None
    assert found.connections_per_s * found.mean_s == pytest.approx(found.littles_load_factor)  # Little's law
    assert found.p50_s == pytest.approx(0.1, rel=0.005)
    assert found.min_s == 0.1
    assert found.p25_s == pytest.approx(0.1, rel=0.005)
    assert found.p75_s == pytest.approx(0.3, rel=0.005)
    assert found.p90_s == pytest.approx(1.0, rel=0.005)
    assert found.max_s == 1.0
    assert found.failed_mean_s == 1.0
    assert found.shares == {"a": 0.8, "b": 0.2}
    assert found.dns_mean_s == pytest.approx(0.001)
    assert found.connect_p95_s == pytest.approx(0.002)
    assert found.errors["5xx"] == 2
    assert found.late_p99_s is None  # a closed loop


def test_lateness_of_an_open_loop() -> None:
    made = RequestTally()
    for late in (0.0, 0.0, 0.25):
        made.add(0.0, 0.1, 0.0, 0.0, 0, "a", "", late)
    assert run_statistics(made, 1.0).late_p99_s == 0.25


def test_rates_within_a_run() -> None:
    made = RequestTally()
    for second, count in enumerate((4, 0, 2, 6)):
        for _ in range(count):
            made.add(second + 0.25, 0.5, 0.0, 0.0, 0, "a")
    made.add(2.5, 0.25, 0.0, 0.0, 0, "a", "reset")
    found = run_statistics(made, 4.0)
    # The last second, with 6 requests, may be incomplete
    assert (found.rate_min_per_s, found.rate_max_per_s, found.rate_deviation_per_s) == (0, 4, 2)
    short = run_statistics(tally([0.1]), 0.5)
    assert short.rate_min_per_s is short.rate_max_per_s is short.rate_deviation_per_s is None


def test_responses() -> None:
    made = tally([0.1] * 4)
    for status, transfer_s in ((200, 0.25), (206, 0.75), (304, 0.0), (503, 0.0)):
        made.add_response(status, 0.5, transfer_s)
    found = run_statistics(made, 1.0)
    assert found.statuses == {"2xx": 2, "3xx": 1, "4xx": 0, "5xx": 1}
    assert (found.response_mean_s, found.transfer_mean_s) == (0.5, 0.25)
    assert (found.response_p95_s, found.transfer_p95_s) == (0.5, 0.75)


def test_nothing_measured_is_no_result() -> None:
    found = run_statistics(RequestTally(), 10.0)
    assert {name: found.number(name) for name in NUMBERS} == dict.fromkeys(NUMBERS)
    assert found.shares == {}
    assert json.loads(json.dumps(found.as_json()))["p99_s"] is None


def test_no_time_is_no_rate() -> None:
    found = run_statistics(tally([0.1]), 0.0)
    assert found.requests_per_s is found.mbit_per_s is found.littles_load_factor is None
    assert found.mean_s == 0.1


def test_everything_failed_is_a_result() -> None:
    found = run_statistics(tally([0.1, 0.1], "reset"), 1.0)
    assert (found.requests_per_s, found.error_percent) == (0.0, 100.0)


def test_a_figure_by_its_name() -> None:
    found = run_statistics(tally([0.1], "reset"), 1.0)
    assert (found.number("failed"), found.number("reset"), found.number("timeout")) == (1, 1, 0)
    for name in COUNTS:
        assert isinstance(found.number(name), int)
    with pytest.raises(KeyError):
        found.number("seconds")


def test_spread_over_repetitions() -> None:
    runs = [run_statistics(tally([0.1] * count), 1.0) for count in (10, 20, 30)]
    found = spread(runs)
    assert (found.repetitions, found.measured) == (3, 3)
    assert (found.mean["requests_per_s"], found.deviation["requests_per_s"]) == (20.0, 10.0)
    assert found.mean["failed_mean_s"] is None


def test_a_repetition_without_a_result_is_not_0() -> None:
    found = spread([run_statistics(tally([0.1] * 10), 1.0), run_statistics(RequestTally(), 1.0)])
    assert (found.repetitions, found.measured) == (2, 1)
    assert found.mean["requests_per_s"] == 10.0
    assert found.deviation["requests_per_s"] is None
    with pytest.raises(ValueError, match="at least one repetition"):
        spread([])
