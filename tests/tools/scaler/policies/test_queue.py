"""Tests of the policy queue: staffing by the offered load, waiting times, and delayed removal."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_tools.queueing_theory import erlang_c
from lbdns_tools.scaler.policies.queue import Queue
from tests.tools.scaler.policies.farm_views import CAPACITY, MONDAY, DecidingFarm, rounds, view


@pytest.mark.parametrize(
    ("rate", "beta", "cores", "expected"),
    [
        (100.0, 1.0, 1.0, 14),  # R = 100 / 10 = 10 servers, 10 + sqrt(10) = 13.2
        (100.0, 2.0, 1.0, 17),
        (100.0, 1.0, 4.0, 12),  # R = 40 processors, 46.3 of them, 4 in each server
        (0.0, 1.0, 1.0, 1),
        (90.0, 1.0, 1.0, 12),  # exactly 9 + 3
    ],
)
def test_square_root_staffing(rate: float, beta: float, cores: float, expected: int) -> None:
    assert Queue(beta=beta, cores=cores).servers(rate, 10.0) == expected


@given(st.floats(1, 3000), st.sampled_from([1.0, 2.0, 8.0]), st.floats(0.01, 1.0))
def test_waits_are_short_by_erlang_c(rate: float, cores: float, wait: float) -> None:
    """95 % of the requests wait no longer than asked for with at most one server more."""
    policy, service = Queue(wait_p95=wait, cores=cores), cores / CAPACITY
    processors = int((policy.servers(rate, CAPACITY) + 1) * cores)
    offered = rate * service
    late = erlang_c(processors, offered) * math.exp(-(processors - offered) * wait / service)
    assert late <= 0.05


@given(st.floats(0, 5000), st.floats(0, 500), st.floats(0.001, 10))
def test_more_demand_never_needs_fewer_servers(rate: float, more: float, wait: float) -> None:
    assert Queue(wait_p95=wait).servers(rate, CAPACITY) <= Queue(wait_p95=wait).servers(rate + more, CAPACITY)
    assert Queue(wait_p95=wait).servers(rate, CAPACITY) * CAPACITY >= rate * (1 - 1e-9)


def test_it_adds_servers_at_once_and_states_the_reason() -> None:
    found = Queue().recommend(view(300.0, 3, rounds([50.0] * 10, 3, MONDAY - 60)))
    assert (found.servers, found.remove) == (12, ())
    assert found.reason == "300.0 requests/s need 12 servers at 28.6 requests/s each, including a reserve."


def test_it_removes_servers_after_the_delay() -> None:
    farm = DecidingFarm(Queue(billing_period=0.0, delay_in=300.0), 12)
    assert farm.follow([300.0] * 3 + [100.0] * 6) == [12] * 3 + [12] * 4 + [6, 6]


def test_what_remains_for_now_is_in_the_reason() -> None:
    found = Queue().recommend(view(50.0, 12, rounds([300.0] * 10, 12, MONDAY - 60)))
    assert found.servers == 12
    assert found.reason.endswith("requests/s each, including a reserve; the farm keeps 12 for now.")


@given(
    st.floats(20, 900), st.lists(st.floats(-0.047, 0.047), min_size=40, max_size=80), st.integers(1, 40),
    st.sampled_from([0.0, 3600.0]),
)  # fmt: skip
def test_noise_causes_no_oscillation(rate: float, noise: list[float], start: int, period: float) -> None:
    """Under noise of 4.7 %, a farm never adds servers again once it has removed some (margin_in is 10 %)."""
    farm = DecidingFarm(Queue(billing_period=period), start, maximum=60)
    numbers = farm.follow(rate * (1 + part) for part in noise)
    changes = [after - before for before, after in pairwise(numbers) if after != before]
    first_removal = next((at for at, change in enumerate(changes) if change < 0), len(changes))
    assert all(change < 0 for change in changes[first_removal:])
