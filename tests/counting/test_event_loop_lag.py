"""Tests of measuring the lag of an event loop."""

from __future__ import annotations

import asyncio
import time

import pytest

from lbdns.counting.event_loop_lag import BEYOND, BOUNDS, EventLoopLag, cumulative_lag
from tests.server.clients import until


async def test_a_loop_that_is_held_up_is_late() -> None:
    lag = EventLoopLag("worker", every=0.01)
    try:
        await until(lambda: sum(lag.figures().lag.values()) >= 3)
        before = lag.figures()
        time.sleep(0.08)  # noqa: ASYNC251  that is what is measured
        await until(lambda: sum(lag.figures().lag.values()) > sum(before.lag.values()))
        late = lag.figures().beyond(before)
        assert any(process == "worker" and (bound >= 50_000 or bound == BEYOND) for process, bound in late.lag)
        assert 50_000 < late.lag_us["worker"] < 60_000_000
    finally:
        lag.stop()


async def test_looks_end() -> None:
    lag = EventLoopLag("main", every=0.001)
    await until(lambda: lag.figures().lag)
    lag.stop()
    before = lag.figures()
    await asyncio.sleep(0.02)
    assert lag.figures() == before
    assert before.lag_us.keys() == {"main"}
    assert {bound for _, bound in before.lag} <= {*BOUNDS, BEYOND}


@pytest.mark.parametrize(
    ("counts", "below"),
    [
        ({}, {"0.0002": 0, "1.0": 0, "+Inf": 0}),
        ({200: 7, 5000: 2, BEYOND: 1}, {"0.0002": 7, "0.002": 7, "0.005": 9, "1.0": 9, "+Inf": 10}),
        ({123: 1, 200: 7}, {"0.000123": 1, "0.0002": 8, "+Inf": 8}),
    ],
)
def test_buckets_count_all_checks_up_to_their_bound(counts: dict[int, int], below: dict[str, int]) -> None:
    found = cumulative_lag(counts)
    assert [bound for bound, _ in found] == sorted((bound for bound, _ in found), key=float)
    assert below.items() <= dict(found).items()
