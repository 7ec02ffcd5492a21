"""Ending background tasks."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from lbdns.process import background_tasks
from lbdns.process.background_tasks import end_task, end_tasks


async def test_the_task_has_ended_when_the_call_returns() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await end_task(task)
    assert ended.is_set()
    await end_task(task)
    await end_task(None)


async def test_the_error_of_a_task_that_failed_is_raised() -> None:
    async def work() -> None:
        raise ValueError("failed")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="failed"):
        await end_task(task)


async def test_all_tasks_have_ended_when_the_call_returns_and_their_errors_are_ignored() -> None:
    ended = []

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(number)
            if number == 1:
                raise ValueError("failed")

    tasks = [asyncio.create_task(work(number)) for number in range(3)]
    await asyncio.sleep(0)
    await end_tasks(iter(tasks))
    assert sorted(ended) == [0, 1, 2]
    await end_tasks(tasks)
    await end_tasks(())


async def test_a_task_that_misses_a_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "AGAIN", 0.001)

    async def work() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    tasks = [asyncio.create_task(work()) for _ in range(4)]
    await asyncio.sleep(0)
    await end_task(tasks[0])
    tasks[1].cancel()
    await end_tasks([tasks[1]], already_cancelled=True)
    await end_tasks(tasks)
    assert all(task.cancelled() for task in tasks)


async def test_a_cancelled_task_may_clean_up() -> None:
    is_clean = False

    async def work() -> None:
        nonlocal is_clean
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            is_clean = True

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    await end_tasks([task], already_cancelled=True)
    assert is_clean
