"""The gate: one at a time, pauses as long as there are queries, lanes that don't hold each other up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from lbdns_collector.web import gate as gate_module
from lbdns_collector.web.gate import BRISK_PAUSE, LARGE_PAUSE, LEAST_PAUSE, LONGEST_PAUSE, SAVED, Gate, Lane
from tests.collector.making import until


def quiet_gate() -> Gate:
    return Gate(lambda: 0, lambda: 3)


def exhausted(pause: float) -> Gate:
    """A gate whose account is empty. Needs a running event loop."""
    gate = quiet_gate()
    gate.pause = pause
    gate._saved = 0.0
    return gate


async def turn_at(gate: Gate, lane: Lane, cost: float, order: list[str]) -> None:
    async with gate.turn(lane, cost):
        order.append(lane)


async def test_one_at_a_time_and_a_pause_as_long_as_it_took() -> None:
    gate = exhausted(pause=20.0)
    began = time.monotonic()
    for _ in range(4):
        async with gate.turn("work", 0.0005):
            pass
    assert time.monotonic() - began >= 3 * 20 * 0.0005
    assert gate.spent >= 4 * 0.0005


async def test_nobody_waits_where_nothing_is_asked() -> None:
    gate = quiet_gate()
    assert gate.pause == LEAST_PAUSE
    began = time.monotonic()
    async with gate.turn("request"):
        pass
    assert time.monotonic() - began < 1


async def test_what_is_saved_is_spent_with_short_pauses() -> None:
    """A page that somebody opens on a busy server comes at once; only what goes on and on has to wait."""
    gate = quiet_gate()
    gate.pause = LONGEST_PAUSE
    began, cost, count = time.monotonic(), 0.001, int(0.8 * SAVED / 0.001)
    for _ in range(count):
        async with gate.turn("request", cost):
            pass
    brisk = time.monotonic() - began
    assert brisk < count * cost * LONGEST_PAUSE / 2
    assert brisk >= (count - 1) * cost * BRISK_PAUSE * 0.9
    await turn_at(gate, "request", SAVED / 2, [])  # what is left, and more
    began = time.monotonic()
    async with gate.turn("request", cost):
        pass
    assert time.monotonic() - began > 0.1, "the account is empty"


async def test_work_is_done_in_slices_between_which_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "QUIET_SLICE", 0.002)
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
    assert await quiet_gate().work(steps()) == list(range(10))
    beside.cancel()
    assert turns >= 4


async def test_a_step_that_fails_lets_the_next_one_in() -> None:
    gate = quiet_gate()

    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await gate.work(failing())
    async with asyncio.timeout(5):
        assert await gate.work(iter([1, 2])) == [1, 2]


async def test_a_flood_of_requests_does_not_hold_up_work() -> None:
    gate = exhausted(pause=2.0)
    order: list[str] = []
    flood = [asyncio.create_task(turn_at(gate, "request", 0.001, order)) for _ in range(200)]
    await until(lambda: len(order) >= 3)
    done = len(order)
    for _ in range(3):
        await turn_at(gate, "work", 0.0001, order)
    assert len(order) - done <= 3 + 5
    assert order[-1] == "work"
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)


async def test_lanes_get_the_same_time_not_the_same_number_of_turns() -> None:
    gate = exhausted(pause=1.0)
    order: list[str] = []
    dear = [asyncio.create_task(turn_at(gate, "connection", 0.002, order)) for _ in range(50)]
    cheap = [asyncio.create_task(turn_at(gate, "request", 0.0002, order)) for _ in range(50)]
    await until(lambda: all(task.done() for task in cheap))
    # CPU time that is really spent counts too, so not quite ten to one
    assert order.count("connection") < 25
    for task in dear:
        task.cancel()
    await asyncio.gather(*dear, return_exceptions=True)


async def test_those_who_give_up_hold_up_nobody() -> None:
    gate = exhausted(pause=5.0)
    waiting = [asyncio.create_task(turn_at(gate, "request", 0.001, [])) for _ in range(10)]
    await asyncio.sleep(0)
    for task in waiting[1:]:
        task.cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting, return_exceptions=True)
        async with gate.turn("request"):
            pass
    assert gate.waiting("request") == 0


async def test_pauses_follow_the_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "LOOK", 0.01)
    count, members = 0, 3
    gate = Gate(lambda: count, lambda: members)
    gate.start()
    try:
        assert gate.pause == LEAST_PAUSE
        for size, longest in ((3, LONGEST_PAUSE), (1000, LARGE_PAUSE)):
            members = size
            async with asyncio.timeout(5):
                while gate.pause != longest:
                    count += 10**6
                    await asyncio.sleep(0.005)
        await until(lambda: gate.pause == LEAST_PAUSE)
    finally:
        gate.stop()


async def test_threads_work_one_at_a_time_with_a_rest() -> None:
    gate = quiet_gate()
    gate.pause = 3.0
    at_once = most = 0

    async def work() -> int:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.02)
        at_once -= 1
        return 7

    began = time.monotonic()
    assert sum(await asyncio.gather(gate.beside(work()), gate.beside(work()))) == 14
    assert most == 1
    assert time.monotonic() - began >= (1 + 3 + 1) * 0.02 * 0.9
