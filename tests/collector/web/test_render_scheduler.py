"""Tests of the render scheduler: one turn at a time, pauses that depend on the query rate, and independent lanes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from lbdns_collector.web import render_scheduler as render_scheduler_module
from lbdns_collector.web.render_scheduler import (
    CREDIT_PAUSE,
    LARGE_FARM_PAUSE,
    LONGEST_PAUSE,
    MAX_CREDIT,
    SHORTEST_PAUSE,
    RenderLane,
    RenderScheduler,
)
from tests.collector.collector_fixtures import until


def quiet_scheduler() -> RenderScheduler:
    return RenderScheduler(lambda: 0, lambda: 3)


def exhausted(pause: float) -> RenderScheduler:
    """Return a scheduler that has used up its credit. Requires a running event loop."""
    scheduler = quiet_scheduler()
    scheduler.pause = pause
    scheduler._credit = 0.0
    return scheduler


async def turn_at(scheduler: RenderScheduler, lane: RenderLane, cost: float, order: list[str]) -> None:
    async with scheduler.turn(lane, cost):
        order.append(lane)


async def test_one_turn_at_a_time_with_a_pause_as_long() -> None:
    scheduler = exhausted(pause=20.0)
    began = time.monotonic()
    for _ in range(4):
        async with scheduler.turn("work", 0.0005):
            pass
    assert time.monotonic() - began >= 3 * 20 * 0.0005
    assert scheduler.spent >= 4 * 0.0005


async def test_without_queries_turns_do_not_wait() -> None:
    scheduler = quiet_scheduler()
    assert scheduler.pause == SHORTEST_PAUSE
    times = []
    for _ in range(3):
        began = time.monotonic()
        async with scheduler.turn("request"):
            pass
        times.append(time.monotonic() - began)
    assert min(times) < 1


async def test_credit_is_spent_with_short_pauses() -> None:
    """A page that is opened on a busy server loads immediately; only continuous load is delayed."""
    for _ in range(5):
        if await credit_is_spent():
            return
    raise AssertionError("pauses are long while there is credit, or the machine is too busy")


async def credit_is_spent() -> bool:
    """Spend the credit, and return False if pauses of the machine lengthen this too much to show anything."""
    scheduler = quiet_scheduler()
    scheduler.pause = LONGEST_PAUSE
    began, cost, count = time.monotonic(), 0.001, int(0.8 * MAX_CREDIT / 0.001)
    for _ in range(count):
        async with scheduler.turn("request", cost):
            pass
    brisk = time.monotonic() - began
    assert brisk >= (count - 1) * cost * CREDIT_PAUSE * 0.9
    if brisk >= count * cost * LONGEST_PAUSE / 2:
        return False
    await turn_at(scheduler, "request", MAX_CREDIT / 2, [])  # the remaining credit, and more
    began = time.monotonic()
    async with scheduler.turn("request", cost):
        pass
    return time.monotonic() - began > 0.1  # the account is empty, unless a pause of the machine has filled it again


async def test_work_is_done_in_slices_between_which_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_scheduler_module, "QUIET_SLICE", 0.002)
    turns = 0

    def steps() -> Iterator[int]:
        for number in range(10):
            end = time.perf_counter() + 0.001
            while time.perf_counter() < end:
                pass
            yield number

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(others())
    assert await quiet_scheduler().work(steps()) == list(range(10))
    beside.cancel()
    assert turns >= 4


async def test_a_step_that_fails_lets_the_next_one_in() -> None:
    scheduler = quiet_scheduler()

    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await scheduler.work(failing())
    async with asyncio.timeout(60):
        assert await scheduler.work(iter([1, 2])) == [1, 2]


async def test_a_flood_of_requests_does_not_hold_up_work() -> None:
    scheduler = exhausted(pause=2.0)
    order: list[str] = []
    flood = [asyncio.create_task(turn_at(scheduler, "request", 0.001, order)) for _ in range(200)]
    await until(lambda: len(order) >= 3)
    done = len(order)
    for _ in range(3):
        await turn_at(scheduler, "work", 0.0001, order)
    assert len(order) - done <= 3 + 5
    assert order[-1] == "work"
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)


async def test_lanes_get_the_same_time_not_the_same_number_of_turns() -> None:
    scheduler = exhausted(pause=1.0)
    order: list[str] = []
    dear = [asyncio.create_task(turn_at(scheduler, "work", 0.002, order)) for _ in range(50)]
    cheap = [asyncio.create_task(turn_at(scheduler, "request", 0.0002, order)) for _ in range(50)]
    await until(lambda: all(task.done() for task in cheap))
    # the turns' real CPU time counts too, so the ratio is not exactly ten to one
    assert order.count("work") < 25
    for task in dear:
        task.cancel()
    await asyncio.gather(*dear, return_exceptions=True)


async def test_cancelled_turns_hold_up_no_others() -> None:
    scheduler = exhausted(pause=5.0)
    waiting = [asyncio.create_task(turn_at(scheduler, "request", 0.001, [])) for _ in range(10)]
    await asyncio.sleep(0)
    for task in waiting[1:]:
        task.cancel()
    async with asyncio.timeout(60):
        await asyncio.gather(*waiting, return_exceptions=True)
        async with scheduler.turn("request"):
            pass
    assert scheduler.waiting("request") == 0


async def test_pauses_follow_the_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_scheduler_module, "QUERY_SAMPLE_PERIOD", 0.01)
    count, members = 0, 3
    scheduler = RenderScheduler(lambda: count, lambda: members)
    scheduler.start()
    try:
        assert scheduler.pause == SHORTEST_PAUSE
        for size, longest in ((3, LONGEST_PAUSE), (1000, LARGE_FARM_PAUSE)):
            members = size
            async with asyncio.timeout(60):
                while scheduler.pause != longest:
                    count += 10**6
                    await asyncio.sleep(0.005)
        await until(lambda: scheduler.pause == SHORTEST_PAUSE)
    finally:
        scheduler.stop()


async def test_threads_work_one_at_a_time_with_a_rest() -> None:
    scheduler = quiet_scheduler()
    scheduler.pause = 3.0
    at_once = most = 0

    async def work() -> int:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.02)
        at_once -= 1
        return 7

    began = time.monotonic()
    assert sum(await asyncio.gather(scheduler.beside(work()), scheduler.beside(work()))) == 14
    assert most == 1
    assert time.monotonic() - began >= (1 + 3 + 1) * 0.02 * 0.9
