"""Tests of the pace of control commands: their order, and the pauses between them."""

from __future__ import annotations

import asyncio
import time

from lbdns.process.duty_cycle import DutyCycle
from lbdns.server.control.command_pace import CommandPace


async def test_turns_come_in_order_and_one_per_iteration() -> None:
    pace, order = CommandPace(DutyCycle(0.0)), list[int]()

    async def take(number: int) -> None:
        await pace.turn()
        order.append(number)

    tasks = [asyncio.create_task(take(number)) for number in range(5)]
    seen = 0
    while seen < 5:
        await asyncio.sleep(0)
        assert len(order) - seen <= 1
        seen = len(order)
    assert order == [0, 1, 2, 3, 4]
    await asyncio.gather(*tasks)


async def test_a_long_command_is_followed_by_a_long_pause() -> None:
    pace = CommandPace()
    await pace.turn()
    began = time.thread_time()
    while time.thread_time() < began + 0.01:
        pass
    ended = asyncio.get_running_loop().time()
    await pace.turn()
    assert asyncio.get_running_loop().time() - ended >= 49 * 0.01


async def test_a_cancelled_turn_does_not_stop_the_others() -> None:
    pace = CommandPace()
    await pace.turn()
    waiting = [asyncio.create_task(pace.turn()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    async with asyncio.timeout(60):
        await asyncio.gather(*waiting[1:])
