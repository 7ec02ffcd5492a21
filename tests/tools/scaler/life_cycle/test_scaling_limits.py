"""Tests of the limits that apply to every policy: minimum, maximum, quota, cool-down and delay."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.scaler.life_cycle.scaling_limits import ScalingLimits
from lbdns_tools.scaler.policies.fixed import Fixed
from lbdns_tools.scaler.policies.reactive import Reactive
from lbdns_tools.scaler.policies.scaling_policy import Recommendation
from tests.tools.scaler.policies.farm_views import MONDAY, DecidingFarm, rounds, view


@pytest.mark.parametrize(
    ("wanted", "quota", "expected", "reason"),
    [
        (5, None, 5, "Because."),
        (1, None, 2, "Because. The farm must have at least 2 servers."),
        (30, None, 20, "Because. The farm may have at most 20 servers."),
        (30, 50, 20, "Because. The farm may have at most 20 servers."),
        (15, 12, 12, "Because. The farm may have at most 12 servers."),
        (5, 1, 1, "Because. The farm may have at most 1 server."),
        (5, 0, 1, "Because. The farm may have at most 1 server."),
    ],
)
def test_minimum_maximum_and_quota(wanted: int, quota: int | None, expected: int, reason: str) -> None:
    found = ScalingLimits().apply(Recommendation(wanted, "Because.", ("a",)), view(0.0, 3, minimum=2), quota)
    assert found == Recommendation(expected, reason, ("a",))


@given(st.integers(-5, 60), st.integers(0, 10), st.integers(0, 30), st.one_of(st.none(), st.integers(0, 40)))
def test_never_without_a_server(wanted: int, minimum: int, maximum: int, quota: int | None) -> None:
    seen = view(0.0, 3, rounds([1.0] * 5, 3, MONDAY - 60), minimum=minimum, maximum=maximum)
    for limits in (ScalingLimits(), ScalingLimits(120.0, 300.0)):
        found = limits.apply(Recommendation(wanted, "Because."), seen, quota).servers
        assert 1 <= found <= max(1, minimum, maximum)
        assert quota is None or found <= max(1, quota)


def test_the_cool_down_separates_changes() -> None:
    farm = DecidingFarm(Reactive(per_server=10.0), 1, limits=ScalingLimits(cool_down=180.0))
    assert farm.follow([20.0, 30.0, 40.0, 50.0, 60.0, 10.0, 10.0]) == [2, 3, 3, 3, 6, 6, 6]
    farm = DecidingFarm(Reactive(per_server=10.0), 1, limits=ScalingLimits(cool_down=180.0))
    assert [farm.decide(rate).reason for rate in (20.0, 30.0, 40.0)][-1] == (
        "40.0 requests/s need 4 servers at 10.0 requests/s each. "
        "The number of servers stays the same for 180 s after a change."
    )


def test_removals_are_delayed() -> None:
    farm = DecidingFarm(Reactive(per_server=10.0), 9, limits=ScalingLimits(delay_in=180.0))
    assert farm.follow([90.0, 50.0, 20.0, 20.0, 20.0, 20.0, 60.0, 10.0]) == [9, 9, 9, 5, 2, 2, 6, 6]


def test_an_unknown_past_delays_removals() -> None:
    farm = DecidingFarm(Reactive(per_server=10.0), 9, limits=ScalingLimits(delay_in=180.0))
    assert farm.follow([20.0] * 5) == [9, 9, 9, 2, 2]


def test_the_defaults_change_nothing() -> None:
    farm = DecidingFarm(Fixed(4), 1)
    assert farm.follow([1.0, 1.0]) == [4, 4]
    assert ScalingLimits().history == 0
    assert ScalingLimits(60.0, 90.0).history >= 90


@given(st.lists(st.floats(0, 200), min_size=2, max_size=60), st.integers(1, 10))
def test_changes_are_as_far_apart_as_the_cool_down(rates: list[float], rounds_apart: int) -> None:
    limits = ScalingLimits(cool_down=60.0 * rounds_apart)
    numbers = DecidingFarm(Reactive(per_server=10.0), 1, limits=limits).follow(rates)
    changes = [at for at in range(1, len(numbers)) if numbers[at] != numbers[at - 1]]
    assert all(later - earlier >= rounds_apart for earlier, later in pairwise(changes))
