"""Tests of response times by the queueing model: means and percentiles of mixtures."""

from __future__ import annotations

import math

import pytest

from lbdns_tools.queueing_theory import mean_response
from lbdns_tools.scaler.replay.modelled_response_times import BUSIEST, ModelledResponseTimes


@pytest.mark.parametrize("utilization", [0.0, 0.25, 0.5, 0.9])
def test_one_utilization_is_m_m_1(utilization: float) -> None:
    times = ModelledResponseTimes(0.1, 1)
    times.add(utilization, 1000.0)
    assert times.mean() == pytest.approx(0.1 / (1 - utilization))
    assert times.percentile(99) == pytest.approx(0.1 / (1 - utilization) * math.log(100), rel=1e-6)


def test_two_cores_of_the_study() -> None:
    times = ModelledResponseTimes(0.07, 2)
    times.add(0.5, 10.0)
    assert times.mean() == pytest.approx(mean_response(2, 0.07, 0.5 * 2 / 0.07))


def test_half_a_core_takes_twice_as_long() -> None:
    times = ModelledResponseTimes(0.1, 0.5)
    times.add(0.5, 10.0)
    assert times.mean() == pytest.approx(0.2 / (1 - 0.5))


def test_a_mixture() -> None:
    times = ModelledResponseTimes(0.1, 1)
    times.add(0.0, 900.0)
    times.add(0.9, 100.0)
    assert times.mean() == pytest.approx(0.9 * 0.1 + 0.1 * 1.0)
    assert 0.4 < times.percentile(99) < 4.6
    assert times.percentile(99) == pytest.approx(1.0 * math.log(10), rel=0.01), "10 % of the slow ones are 1 % of all"


def test_no_requests_and_overload() -> None:
    times = ModelledResponseTimes(0.1, 1)
    assert (times.mean(), times.percentile(99)) == (0, 0)
    times.add(1.0, 5.0)
    assert times.mean() == pytest.approx(0.1 / (1 - BUSIEST))
