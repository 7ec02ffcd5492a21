"""Cancels background tasks, and waits until they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

#: Seconds after which a task is cancelled again. A task can miss a cancellation: before Python 3.12, asyncio.wait_for,
#: which libraries use, returns its result instead if the task is cancelled at the moment at which the result arrives.
AGAIN: Final = 2.0


async def end_task(task: asyncio.Task[Any] | None) -> None:
    """Cancel ``task`` and wait until it has ended; None is ignored.

    Raises the error that ended the task, if there was an error.
    """
    if task is not None:
        await end_tasks([task])
        if not task.cancelled() and (error := task.exception()):
            raise error


async def end_tasks(tasks: Iterable[asyncio.Task[Any]], *, already_cancelled: bool = False) -> None:
    """Cancel all ``tasks``, unless they are ``already_cancelled``, and wait until they have ended.

    Their errors are ignored.
    """
    ending = set(tasks)
    while ending:
        for task in ending if not already_cancelled else ():
            task.cancel()
        already_cancelled = False
        ended, ending = await asyncio.wait(ending, timeout=AGAIN)
        for task in ended:
            if not task.cancelled():
                task.exception()  # asyncio logs errors that are never retrieved
