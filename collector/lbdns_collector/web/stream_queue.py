"""The queue of one event stream: it holds events until the client reads them, and cuts off clients that read too
slowly."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

MAX_STREAMS: Final = 100  # concurrent streams; each open page uses one
MAX_WAITING: Final = 64  # events that wait for one client, some seconds' worth
MAX_WAITING_BYTES: Final = 16 * 2**20


class StreamQueue:
    """The events that wait for one client. ``abort`` closes its connection."""

    def __init__(self, abort: Callable[[], None], keep_alive: float) -> None:
        self.keep_alive = keep_alive  # seconds
        self._abort = abort
        self._events: deque[bytes] = deque()
        self._bytes = 0
        self._whole = b""
        self._wake = asyncio.Event()
        self.ended = False

    def push(self, event: bytes) -> None:
        """Add an event. If the client is too far behind, it is cut off; it can reconnect and receive the whole status
        again."""
        if self.ended:
            return
        full = len(self._events) >= MAX_WAITING or self._bytes + len(event) > MAX_WAITING_BYTES
        if self._events and full:
            self.end()
            self._abort()
            return
        self._events.append(event)
        self._bytes += len(event)
        self._wake.set()

    def replace(self, event: bytes) -> None:
        """Add an event with the whole status, which replaces a waiting one."""
        if not self.ended:
            self._whole = event
            self._wake.set()

    @property
    def is_behind(self) -> bool:
        """Whether an event with the whole status still waits."""
        return bool(self._whole)

    def end(self) -> None:
        """End the stream, and drop waiting events."""
        self.ended = True
        self._clear()
        self._wake.set()

    async def next(self) -> bytes | None:
        """Return all waiting events joined, ``b""`` if none came for ``keep_alive`` seconds, or None at the end of the
        stream."""
        if not self._events and not self._whole and not self.ended:
            try:
                await asyncio.wait_for(self._wake.wait(), self.keep_alive)
            except TimeoutError:
                return b""
        if self.ended:
            return None
        waiting = b"".join((*self._events, self._whole))
        self._clear()
        self._wake.clear()
        return waiting

    def _clear(self) -> None:
        self._events.clear()
        self._bytes = 0
        self._whole = b""
