"""Tests of the policy target: ratio, tolerance, step limit, stabilization, warm servers and panic mode."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.policies.scaling_policy import ServerView
from lbdns_tools.scaler.policies.target import Target
from tests.tools.scaler.policies.farm_views import MONDAY, DecidingFarm, rounds, servers, view

REQUESTS = Target(per_server=10.0, panic=False)
CPU = Target("cpu", 50.0, panic=False)


@pytest.mark.parametrize(
    ("rate", "count", "expected"),
    [
        (50.0, 5, 5), (55.0, 5, 5), (45.0, 5, 5),  # within 10 %
        (56.0, 5, 6), (61.0, 5, 7), (44.0, 5, 5), (40.0, 5, 4), (0.0, 5, 1),
        (200.0, 2, 6), (200.0, 5, 10), (200.0, 10, 20), (900.0, 9, 18),  # at most the double or 4 more
    ],
)  # fmt: skip
def test_servers_by_requests(rate: float, count: int, expected: int) -> None:
    assert replace(REQUESTS, stabilize=0.0).recommend(view(rate, count, maximum=100)).servers == expected


@pytest.mark.parametrize(
    ("cpu", "expected"), [(50.0, 4), (55.0, 4), (56.0, 5), (100.0, 8), (45.0, 4), (44.0, 4), (37.0, 3), (None, 4)]
)
def test_servers_by_cpu(cpu: float | None, expected: int) -> None:
    assert replace(CPU, stabilize=0.0).recommend(view(0.0, 4, cpu=cpu)).servers == expected


def test_the_target_follows_from_the_capacity() -> None:
    assert Target(utilization=50.0, panic=False).recommend(view(100.0, 4, capacity=20.0)).servers == 8
    found = Target(utilization=50.0, panic=False).recommend(view(80.0, 4, capacity=20.0))
    assert found.reason == "With 20.0 requests/s per server (target: 10.0), the farm should have 8 servers."


def test_scaling_in_goes_to_the_highest_of_five_minutes() -> None:
    farm = DecidingFarm(REQUESTS, 10)
    assert farm.follow([100.0] * 2 + [70.0] + [30.0] * 7) == [10] * 6 + [7, 3, 3, 3]


def test_an_unknown_past_delays_scaling_in() -> None:
    farm = DecidingFarm(REQUESTS, 10)
    assert farm.follow([30.0] * 7) == [10] * 5 + [3, 3]


def test_scaling_in_does_not_stop_at_what_was_decided() -> None:
    """The decisions of the last 300 s must not hold themselves: only what their demands needed counts."""
    farm = DecidingFarm(REQUESTS, 10, period=15.0)
    assert farm.follow([20.0] * 60)[-1] == 2


def test_decisions_are_15_seconds_apart() -> None:
    farm = DecidingFarm(Target(per_server=10.0, panic=False, stable_window=1.0), 1, period=5.0, maximum=100)
    assert farm.follow([1000.0] * 7) == [5, 5, 10, 10, 10, 20, 20]
    assert farm.decide(1000.0).reason == "The next decision is due within 15 s."


def test_a_restarted_scaler_goes_on() -> None:
    one, other = DecidingFarm(Target(), 3, period=5.0), DecidingFarm(Target(), 3, period=5.0)
    rates = [100.0, 140.0, 300.0, 500.0, 400.0, 80.0] * 20
    together = one.follow(rates)
    first = other.follow(rates[:50])
    restarted = DecidingFarm(Target(), other.count, period=5.0, now=other.now, rounds=list(other.rounds))
    assert first + restarted.follow(rates[50:]) == together


def test_servers_that_are_not_warm_are_not_asked_for_twice() -> None:
    young = tuple(ServerView(f"y{n}", ServerState.IN_SERVICE, MONDAY - 30, 1.0) for n in range(4))
    past = rounds([0.0], 8, MONDAY - 60)
    assert CPU.recommend(view(0.0, 4, past, cpu=90.0, more=young)).servers == 8  # 4 at 90 % are 45 % of 8
    booting = servers(4, ServerState.STARTING)
    assert CPU.recommend(view(0.0, 4, past, cpu=90.0, more=booting)).servers == 8
    assert CPU.recommend(view(0.0, 8, past, cpu=90.0)).servers == 15
    assert CPU.recommend(view(0.0, 0, rounds([0.0], 4, MONDAY - 60), cpu=90.0, more=young)).servers == 8
    assert REQUESTS.recommend(view(130.0, 4, past, more=booting)).servers == 13


def test_panic_mode_follows_the_short_window_and_removes_none() -> None:
    calm, panic = Target(per_server=10.0, panic=False), Target(per_server=10.0)
    rates = [50.0] * 30 + [120.0] * 2 + [20.0] * 90  # rounds of 6 s
    quiet = DecidingFarm(calm, 5, period=6.0, maximum=50).follow(rates)
    found = DecidingFarm(panic, 5, period=6.0, maximum=50).follow(rates)
    assert max(quiet[:34]) <= 7, "the mean of 60 s hardly rises"
    assert found[30:32] == [10, 12], "at once; 12 servers are more than the double"
    peak = found.index(max(found))
    assert all(after >= before for before, after in pairwise(found[: peak + 1]))
    assert found[40] == max(found), "60 s without removals"
    assert found[-1] < 5


def test_panic_mode_is_in_the_reason() -> None:
    found = Target(per_server=10.0).recommend(view(110.0, 5))
    assert (
        found.reason == "Panic mode: with 22.0 requests/s per server (target: 10.0), the farm should have 10 servers."
    )
    assert not Target(per_server=10.0).recommend(view(99.0, 5)).reason.startswith("Panic")


def test_the_history_covers_all_windows() -> None:
    assert Target().history >= 300
    assert Target(stabilize=0.0).history >= 120
