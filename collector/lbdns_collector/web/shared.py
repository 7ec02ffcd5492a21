"""One building of a document for all who ask for it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Shared:
    """What ``build`` makes. Who asks while it is being built shares the next building with all others who do: nobody
    gets what is older than the question, and there is never more than one building at a time."""

    def __init__(self, build: Callable[[], Awaitable[bytes]]) -> None:
        self._build = build
        self._lock = asyncio.Lock()
        self._next: asyncio.Task[bytes] | None = None
        self._tasks: set[asyncio.Task[bytes]] = set()  # the building that is on, and the next

    async def get(self) -> bytes:
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._run())
            self._tasks.add(self._next)
            self._next.add_done_callback(self._done)
        # Shielded: one who goes away must not end it for the others
        return await asyncio.shield(self._next)

    async def stop(self) -> None:
        """Build nothing more; whoever waits is cancelled."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> bytes:
        async with self._lock:
            self._next = None  # who asks from now on may want what is not in this one
            return await self._build()

    def _done(self, task: asyncio.Task[bytes]) -> None:
        self._tasks.discard(task)
        if self._next is task:
            self._next = None  # cancelled before it began
        if not task.cancelled():
            task.exception()  # those who waited are told; when nobody did, there is nobody to tell
