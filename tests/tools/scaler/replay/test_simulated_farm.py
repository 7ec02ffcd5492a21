"""Tests of the farm of a replay: booting, removal, draining, and what is paid for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.replay.replay_settings import ReplaySettings
from lbdns_tools.scaler.replay.simulated_farm import SimulatedFarm

SETTINGS = ReplaySettings()  # boots in 180 s, drains in 60 s, is billed by the hour
STARTING, IN_SERVICE, DRAINING = ServerState.STARTING, ServerState.IN_SERVICE, ServerState.DRAINING


def states(farm: SimulatedFarm, now: float) -> list[tuple[str, ServerState, float, float]]:
    return [(server.name, server.state, server.since, server.billed_since) for server in farm.view(now)]


def test_a_life() -> None:
    farm = SimulatedFarm(SETTINGS, 1000.0, 1)
    farm.scale(1000.0, 2, ())
    assert states(farm, 1000.0) == [("s1", IN_SERVICE, 1000, 1000), ("s2", STARTING, 1000, 1000)]
    assert (farm.in_service(1179.0), farm.next_ready(1179.0)) == (1, 1180)
    assert (farm.in_service(1180.0), farm.next_ready(1180.0)) == (2, None)
    assert states(farm, 1180.0)[1] == ("s2", IN_SERVICE, 1180, 1000)
    farm.scale(1300.0, 1, ())
    assert states(farm, 1300.0)[1] == ("s2", DRAINING, 1300, 1000), "the newest goes first"
    assert farm.in_service(1300.0) == 1
    assert len(states(farm, 1360.0)) == 1
    assert (farm.starts, farm.paid_seconds) == (1, 3600)
    farm.finish(8200.0)
    assert farm.paid_seconds == 3 * 3600


def test_named_servers_go_first_then_the_newest() -> None:
    farm = SimulatedFarm(SETTINGS, 0.0, 4)
    farm.scale(0.0, 5, ())
    farm.scale(200.0, 2, ("s2", "s9", "s3"))
    assert [name for name, state, *_ in states(farm, 200.0) if state is IN_SERVICE] == ["s1", "s4"]


def test_servers_that_boot_go_before_named_ones() -> None:
    """A farm must not lose its only server in service because another one is on its way."""
    farm = SimulatedFarm(SETTINGS, 0.0, 1)
    farm.scale(0.0, 2, ())
    farm.scale(60.0, 1, ("s1",))
    assert (farm.in_service(60.0), farm.next_ready(60.0)) == (1, None)


def test_a_server_that_boots_is_cancelled_at_once() -> None:
    farm = SimulatedFarm(SETTINGS, 0.0, 1)
    farm.scale(0.0, 3, ())
    farm.scale(60.0, 1, ())
    assert [server.name for server in farm.view(60.0)] == ["s1"]
    assert farm.next_ready(60.0) is None
    assert farm.paid_seconds == 2 * 3600, "the first hour is paid for"


@pytest.mark.parametrize(
    ("end", "warm_up", "billing", "paid"),
    [
        (10.0, 0.0, 3600.0, 3600),
        (3600.0, 0.0, 3600.0, 3600),
        (3601.0, 0.0, 3600.0, 7200),
        (9000.0, 3600.0, 3600.0, 7200),  # the hours that began after the warm-up
        (9000.0, 3601.0, 3600.0, 3600),
        (9000.0, 20_000.0, 3600.0, 0),
        (9000.0, 0.0, 0.0, 9000),
        (9000.0, 5000.0, 0.0, 4000),
        (9000.0, 0.0, 60.0, 9000),
    ],
)
def test_bills(end: float, warm_up: float, billing: float, paid: float) -> None:
    farm = SimulatedFarm(ReplaySettings(warm_up=warm_up, billing_period=billing), 0.0, 1)
    farm.finish(end)
    assert farm.paid_seconds == paid


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60))
def test_the_farm_has_what_was_decided(numbers: list[int]) -> None:
    farm = SimulatedFarm(SETTINGS, 0.0, 3)
    for at, number in enumerate(numbers):
        now = 60.0 * at
        farm.scale(now, number, ())
        active = [server for server in farm.view(now) if server.state in (STARTING, IN_SERVICE)]
        assert len(active) == number
        assert farm.in_service(now) == sum(server.state is IN_SERVICE for server in active)
    farm.finish(60.0 * len(numbers))
    assert farm.paid_seconds >= 60 * sum(numbers)
    assert farm.paid_seconds % 3600 == 0
