"""Tests of the event loop: tasks, timers, limits and file descriptors."""

from __future__ import annotations

import os
import time

import pytest

from lbdns_tools.load.epoll_loop import READ, DescriptorWaiter, EpollLoop, OutOfTimeError, TimeLimits, pause
from tests.tools.load.local_runs import finish, result_of


def test_timers_in_their_order_and_not_early() -> None:
    loop = EpollLoop()
    begin = time.monotonic()
    seen: list[tuple[str, float]] = []

    async def sleep(name: str, seconds: float) -> None:
        await loop.sleep_until(begin + seconds)
        seen.append((name, time.monotonic() - begin))

    for name, seconds in (("c", 0.02), ("a", 0.0005), ("b", 0.01)):
        loop.start(sleep(name, seconds))
    finish(loop)
    assert [name for name, _ in seen] == ["a", "b", "c"]
    assert all(at >= due for (_, at), due in zip(seen, (0.0005, 0.01, 0.02), strict=True))


def test_limit_interrupts_what_waits() -> None:
    loop = EpollLoop()
    limits = TimeLimits(loop, 0.01)

    async def wait() -> float:
        task = limits.begin()
        begin = time.monotonic()
        try:
            await pause()
        except OutOfTimeError:
            return time.monotonic() - begin
        finally:
            limits.end(task)
        return 0.0

    assert result_of(loop, wait) >= 0.01
    assert not limits.under_way


def test_limit_that_was_ended_interrupts_nothing() -> None:
    loop = EpollLoop()
    limits = TimeLimits(loop, 0.005)

    async def wait() -> str:
        limits.end(limits.begin())
        await loop.sleep_until(loop.clock() + 0.02)
        return "slept"

    assert result_of(loop, wait) == "slept"


def test_descriptor_wakes_who_waits_and_is_forgotten() -> None:
    loop = EpollLoop()
    reading, writing = os.pipe()
    waiter = DescriptorWaiter(loop, reading)

    def write() -> None:
        os.write(writing, b"x")

    async def read() -> bytes:
        loop.call_at(loop.clock() + 0.01, write)
        await waiter.ready(READ)
        waiter.release()
        return os.read(reading, 10)

    assert result_of(loop, read) == b"x"
    assert not loop.handlers
    os.close(reading)
    os.close(writing)


def test_task_started_by_a_task_leaves_it_the_current_one() -> None:
    loop = EpollLoop()

    async def inner() -> None:
        await loop.sleep_until(loop.clock() + 0.001)

    async def outer() -> bool:
        mine = loop.current
        loop.start(inner())
        return loop.current is mine

    assert result_of(loop, outer)


def test_stop_closes_what_is_under_way() -> None:
    loop = EpollLoop()
    closed: list[str] = []

    async def wait() -> None:
        try:
            await pause()
        finally:
            closed.append("closed")

    loop.start(wait())
    loop.call_at(loop.clock() + 0.005, loop.stop)
    loop.run()
    assert closed == ["closed"]


def test_mistakes_come_out() -> None:
    loop = EpollLoop()

    async def stumble() -> None:
        await loop.sleep_until(loop.clock() + 0.001)
        raise ZeroDivisionError

    loop.start(stumble())
    with pytest.raises(ZeroDivisionError):
        loop.run()
