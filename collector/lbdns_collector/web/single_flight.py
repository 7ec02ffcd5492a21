"""Single flight: clients that request a document at the same time share a single build."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from lbdns.process.background_tasks import end_tasks

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """A shared build: ``build`` is called once for all waiting clients.

    A request that arrives during a build waits for the next build. Therefore, no client receives a document that is
    older than its request. At most one build runs at a time.
    """

    def __init__(self, build: Callable[[], Awaitable[T]]) -> None:
        self._build = build
        self._lock = asyncio.Lock()
        self._next: asyncio.Task[T] | None = None
        self._tasks: set[asyncio.Task[T]] = set()  # the running build, and the next

    async def get(self) -> T:
        """Return a document whose build started after this method was called."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._run())
            self._tasks.add(self._next)
            self._next.add_done_callback(self._done)
        # Shielded: a client that disconnects must not cancel the build for the others
        return await asyncio.shield(self._next)

    async def stop(self) -> None:
        """Cancel all builds and the requests waiting for them."""
        await end_tasks(self._tasks)

    async def _run(self) -> T:
        async with self._lock:
            self._next = None  # later requests may need newer data than this build sees
            return await self._build()

    def _done(self, task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        if self._next is task:
            self._next = None  # cancelled before it started
        if not task.cancelled():
            task.exception()  # the waiting clients get the exception; this marks it as retrieved if there are none
