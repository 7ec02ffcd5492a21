"""Tests of delayed removal: the delay, the margin, and the servers whose paid period ends."""

from __future__ import annotations

from math import ceil

import pytest

from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.policies.delayed_off import delayed_off, expiring, nearest_full_period_first
from lbdns_tools.scaler.policies.scaling_policy import Demand, FarmView, ServerView
from tests.tools.scaler.policies.farm_views import MONDAY, rounds, view


def farm(*paid_for: float, booting: bool = False) -> FarmView:
    """Return a farm of servers that have been paid for since so many seconds. Another one is starting or stopped."""
    machines = tuple(
        ServerView(f"s{n}", ServerState.IN_SERVICE, 0.0, MONDAY - seconds) for n, seconds in enumerate(paid_for, 1)
    )
    state = ServerState.STARTING if booting else ServerState.STOPPED
    other = ServerView("other", state, MONDAY, MONDAY - 3500)
    return FarmView(MONDAY, Demand(MONDAY, 10.0), (*machines, other), 10.0, 1, 20)


def needed(rate: float) -> int:
    return ceil(rate / 10)


def test_the_next_to_end_comes_first() -> None:
    assert nearest_full_period_first(farm(100, 3500, 7100, 10_790), 3600) == ("s4", "s2", "s3", "s1")


@pytest.mark.parametrize(
    ("paid_for", "ends"),
    [(3300, True), (3299, False), (3500, True), (3511, False), (3600, False), (10_000, False), (10_600, True)],
)
def test_a_server_can_go_if_it_drains_before_its_period_ends(paid_for: float, ends: bool) -> None:
    assert bool(expiring(farm(paid_for), 3600)) == ends


@pytest.mark.parametrize(
    ("rates", "present", "margin", "expected"),
    [
        ([10.0, 10.0], 3, 0.0, 1),
        ([35.0, 10.0], 3, 0.0, None),  # within the delay
        ([25.0, 10.0], 4, 0.0, 3),
        ([19.0, 10.0], 3, 0.0, 2),
        ([19.0, 10.0], 3, 0.1, None),  # 20.9 needs 3
        ([10.0, 10.0], 1, 0.0, None),
    ],
)
def test_delay_and_margin(rates: list[float], present: int, margin: float, expected: int | None) -> None:
    seen = view(5.0, present, rounds([99.0, *rates], present, MONDAY - 60))  # the delay begins after the first one
    found = delayed_off(seen, present, needed, 180.0, margin, 0.0)
    assert (found.servers if found else None) == expected


def test_only_servers_whose_paid_period_ends_go() -> None:
    found = delayed_off(farm(3300, 100, 3400, 3500, 200), 5, needed, 0.0, 0.0, 3600.0)
    assert found is not None
    assert (found.servers, found.remove) == (2, ("s4", "s3", "s1"))
    assert (
        found.reason
        == "The highest rate in the last 0 s, 10.0 requests/s, needs 1 server; the paid time of 3 servers ends soon."
    )
    assert delayed_off(farm(100, 200, 300), 3, needed, 0.0, 0.0, 3600.0) is None


def test_no_server_goes_while_another_one_is_on_its_way() -> None:
    assert delayed_off(farm(3300, 3400, 3500, booting=True), 4, needed, 0.0, 0.0, 3600.0) is None
    assert delayed_off(farm(3300, 3400, 3500), 3, needed, 0.0, 0.0, 3600.0) is not None


def test_an_unknown_past_delays_too() -> None:
    for past in ([], rounds([10.0, 10.0], 3, MONDAY - 60)):
        assert delayed_off(view(5.0, 3, past), 3, needed, 180.0, 0.0, 0.0) is None
