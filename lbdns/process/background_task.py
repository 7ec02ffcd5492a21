"""Ends background tasks."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any


async def end_task(task: asyncio.Task[Any] | None) -> None:
    """Cancel ``task`` and wait until it has ended; None is ignored.

    Raises the error that ended the task, if there was an error.
    """
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
