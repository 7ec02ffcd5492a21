"""Tests of the turns of TCP connections: what one iteration of the event loop may spend on them, and their order."""

from __future__ import annotations

import asyncio

from lbdns.server.transport.connection_turns import TURNS, ConnectionTurns


async def test_the_time_of_one_iteration_is_limited_and_the_others_follow_in_order() -> None:
    turns = ConnectionTurns()
    assert turns.are_free
    had: list[int] = []

    def proceed(number: int) -> None:
        had.append(number)
        turns.spend(0.6 * TURNS)

    for number in range(5):
        turns.wait(lambda number=number: proceed(number))  # type: ignore[misc]
    assert not turns.are_free, "a new connection must not overtake those that wait"
    seen = []
    for _ in range(3):
        await asyncio.sleep(0)
        seen.append(tuple(had))
    assert seen == [(0, 1), (0, 1, 2, 3), (0, 1, 2, 3, 4)]


async def test_time_spent_without_waiting_counts_until_the_next_iteration() -> None:
    turns = ConnectionTurns()
    turns.spend(TURNS)
    assert not turns.are_free
    await asyncio.sleep(0)
    assert turns.are_free


async def test_a_failure_does_not_end_the_turns_of_others() -> None:
    turns, had = ConnectionTurns(), asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)

    def fail() -> None:
        raise RuntimeError

    turns.wait(fail)
    turns.wait(had.set)
    async with asyncio.timeout(60):
        await had.wait()
