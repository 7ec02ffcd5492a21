"""Tests of the policy revenue: when servers are added and removed in a paid hour, and which ones go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.policies.revenue import Revenue
from lbdns_tools.scaler.policies.scaling_policy import Demand, FarmView, ScalingRound, ServerView
from tests.tools.scaler.policies.farm_views import CAPACITY, MONDAY, view


def hours(rates: list[float], count: int, minutes: int, shift: float = 0.0) -> list[tuple[int, int]]:
    """Return (minute, servers) for each change, if a farm has one mean rate per hour and follows the policy."""
    policy, decided, found = Revenue(), count, []
    rounds: list[ScalingRound] = []
    for minute in range(minutes):
        now = MONDAY + shift + 60 * minute
        rate = rates[minute // 60]
        machines = tuple(ServerView(f"s{n}", ServerState.IN_SERVICE, 0.0, MONDAY + shift) for n in range(decided))
        seen = FarmView(now, Demand(now, rate), machines, CAPACITY, 1, 40, rounds)
        wanted = policy.recommend(seen) if rounds else replace(policy.recommend(seen), servers=count)
        if wanted.servers != decided:
            found.append((minute, wanted.servers))
        decided = wanted.servers
        rounds.append(ScalingRound(seen.demand, len(machines), decided, decided))
    return found


@pytest.mark.parametrize("shift", [0.0, 1234.0])
def test_servers_go_at_minute_55_and_come_at_the_full_hour(shift: float) -> None:
    """The paid hours begin when the servers were started, not with the hours of the clock."""
    assert hours([300.0, 560.0, 100.0, 100.0, 100.0], 11, 299, shift) == [(120, 20), (175, 4)]


@pytest.mark.parametrize(("rate", "expected"), [(35.0, 2), (350.0, 13), (600.0, 20)])
def test_the_start_needs_no_history(rate: float, expected: int) -> None:
    found = Revenue().recommend(view(rate, 1))
    assert found.servers == expected
    assert found.reason == f"At the start, revenue at {rate:.1f} requests/s is highest with {expected} servers."
    assert Revenue(loss="erlang_b").recommend(view(rate, 1)).servers > found.servers or rate == 600.0


def test_the_start_removes_none() -> None:
    found = Revenue().recommend(view(35.0, 9))
    assert (found.servers, found.reason) == (9, "At the start, revenue at 35.0 requests/s is highest with 2 servers.")


def test_the_mean_of_the_hour_decides() -> None:
    """Half an hour of 600 and half an hour of nothing are 300 requests/s."""
    rounds = [
        ScalingRound(Demand(MONDAY + 60 * minute, 600.0 if minute <= 27 else 54.0), 20, 20, 20)
        for minute in range(1, 55)
    ]
    machines = tuple(ServerView(f"s{n}", ServerState.IN_SERVICE, 0.0, MONDAY) for n in range(20))
    now = MONDAY + 3300
    found = Revenue().recommend(FarmView(now, Demand(now, 54.0), machines, CAPACITY, 1, 20, rounds))
    mean = (27 * 600 + 28 * 54) / 55
    assert f"revenue at {mean:.1f} requests/s is highest with {found.servers} servers" in found.reason
    assert found.servers == 12


def test_the_servers_nearest_their_full_hour_go_first() -> None:
    begins = {"old": 0.0, "late": 200.0, "middle": -100.0}
    machines = tuple(ServerView(n, ServerState.IN_SERVICE, 0.0, MONDAY + begin) for n, begin in begins.items())
    now = MONDAY - 100 + 3300
    past = [ScalingRound(Demand(now - 60, 10.0), 3, 3, 3)]
    found = Revenue().recommend(FarmView(now, Demand(now, 10.0), machines, CAPACITY, 1, 20, past))
    assert (found.servers, found.remove) == (1, ("middle", "old", "late"))
    assert found.reason == (
        "Near the end of the hour, revenue at 10.0 requests/s is highest with 1 server, "
        "so 2 servers can be removed now."
    )


def test_an_interruption_over_minute_55_delays_the_removal() -> None:
    machines = tuple(ServerView(f"s{n}", ServerState.IN_SERVICE, 0.0, MONDAY) for n in range(5))
    for minutes, expected in ((50, 5), (58, 1)):
        now = MONDAY + 60 * minutes
        past = [ScalingRound(Demand(MONDAY + 60 * 40, 10.0), 5, 5, 5)]
        assert (
            Revenue().recommend(FarmView(now, Demand(now, 10.0), machines, CAPACITY, 1, 20, past)).servers == expected
        )


def test_between_the_decisions_nothing_changes() -> None:
    past = [ScalingRound(Demand(MONDAY + 60, 10.0), 3, 3, 3)]
    now = MONDAY + 120
    machines = tuple(ServerView(f"s{n}", ServerState.IN_SERVICE, 0.0, MONDAY) for n in range(3))
    found = Revenue().recommend(FarmView(now, Demand(now, 9999.0), machines, CAPACITY, 1, 20, past))
    assert found.servers == 3
    assert (
        found.reason == "The number of servers changes only around the end of a paid hour, so the farm keeps 3 servers."
    )
    assert Revenue().history >= 7200
