"""Event streams: one building of an event for all who read it, and an end for those who read too slowly."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

MAX_STREAMS: Final = 100  # readers at once; every page open in a browser is one
MAX_WAITING: Final = 64  # events kept for a reader, some seconds' worth
MAX_WAITING_BYTES: Final = 16 * 2**20


class Stream:
    """The events that wait for one reader. ``abort`` ends its connection."""

    def __init__(self, abort: Callable[[], None], keep_alive: float) -> None:
        self.keep_alive = keep_alive  # seconds
        self._abort = abort
        self._events: deque[bytes] = deque()
        self._bytes = 0
        self._whole = b""
        self._wake = asyncio.Event()
        self.ended = False

    def push(self, event: bytes) -> None:
        """Add an event. A reader who is too far behind is cut off: it comes back and gets the whole anew."""
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
        """Add an event that says everything; one before it that still waits is not needed any more."""
        if not self.ended:
            self._whole = event
            self._wake.set()

    @property
    def is_behind(self) -> bool:
        """Whether an event that says everything still waits."""
        return bool(self._whole)

    def end(self) -> None:
        """Nothing more comes."""
        self.ended = True
        self._clear()
        self._wake.set()

    async def next(self) -> bytes | None:
        """What waits, all in one piece; empty when nothing came for ``keep_alive`` seconds; None at the end."""
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
