"""Cancels background tasks, and waits until they have ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any


async def end_task(task: asyncio.Task[Any] | None) -> None:
    """Cancel ``task`` and wait until it has ended; None is ignored.

    Raises the error that ended the task, if there was an error.
    """
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel all ``tasks`` and wait until they have ended. Their errors are ignored."""
    ending = tuple(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
