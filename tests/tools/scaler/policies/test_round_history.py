"""Tests of looking back at past rounds: means by time, the highest rate, the last change, and rounding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.policies import round_history as history
from lbdns_tools.scaler.policies.scaling_policy import Demand, ScalingRound
from tests.tools.scaler.policies.farm_views import rounds, servers, view


@pytest.mark.parametrize(
    ("number", "expected"), [(600 * 0.035, 21), (21.001, 22), (21.0, 21), (0.0, 0), (-0.5, 0), (0.001, 1)]
)
def test_round_up(number: float, expected: int) -> None:
    assert history.round_up(number) == expected


@given(st.integers(-5, 50), st.integers(0, 20), st.integers(0, 30))
def test_within_the_limits(number: int, minimum: int, maximum: int) -> None:
    found = history.within(view(0.0, 1, minimum=minimum, maximum=maximum), number)
    assert found >= max(1, minimum)
    assert found <= max(1, minimum, maximum)


def test_what_the_farm_aims_for() -> None:
    assert history.standing(view(0.0, 3, more=servers(2, ServerState.STARTING))) == 5
    past = [ScalingRound(Demand(0.0, 0.0), 3, 9, 7)]
    assert history.standing(view(0.0, 3, past)) == 7
    assert history.standing(view(0.0, 3, past, maximum=6)) == 6


def test_means_weigh_periods_by_their_length() -> None:
    past = [ScalingRound(Demand(time, rate), 1, 1, 1) for time, rate in ((100.0, 7.0), (110.0, 10.0), (140.0, 50.0))]
    seen = view(20.0, 1, past, 150.0)
    assert history.mean_rate(seen, 50.0) == (10 * 10 + 30 * 50 + 10 * 20) / 50
    assert history.mean_rate(seen, 5.0) == 20
    assert history.mean_rate_between(seen, 100.0, 140.0) == (10 * 10 + 30 * 50) / 40
    assert history.mean_rate_between(seen, 150.0, 200.0) is None
    assert history.mean_rate(view(20.0, 1), 0.0) == 20
    assert history.highest_rate(seen, 15.0) == 50
    assert history.highest_rate(seen, 10.0) == 20
    assert [demand.requests_per_s for demand in history.demands_since(seen, 40.0)] == [50, 20]


def test_the_last_change() -> None:
    past = rounds([1.0] * 5, 3, 240.0)
    assert history.last_change(view(1.0, 3, past, 300.0), 1000.0) is None
    past[2] = ScalingRound(past[2].demand, 3, 4, 4)
    assert history.last_change(view(1.0, 3, past, 300.0), 1000.0) == 180, "it changed back"
    assert history.last_change(view(1.0, 3, past, 300.0), 121.0) == 180
    assert history.last_change(view(1.0, 3, past, 300.0), 119.0) is None
    assert history.last_change(view(1.0, 3, [], 300.0), 119.0) is None
