"""Connection turns: limits the time that TCP connections take to answer queries in one iteration of the event loop.

Queries over UDP are answered in every iteration too. Without this limit, hundreds of busy connections would each take a
few milliseconds of every iteration, and queries over UDP would be delayed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

TURNS: Final = 0.002  # s of each iteration of the event loop, for all connections of one listening socket together


class ConnectionTurns:
    """Lets connections answer their queries one after another, until they have used TURNS seconds of an iteration."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._spent = 0.0  # s, in this iteration
        self._scheduled = False

    @property
    def are_free(self) -> bool:
        """Return whether a connection may answer its queries immediately."""
        return not self._waiting and self._spent < TURNS

    def spend(self, seconds: float) -> None:
        """Record that a connection has answered queries for ``seconds``."""
        self._spent += seconds
        self._schedule()

    def wait(self, proceed: Callable[[], None]) -> None:
        """Call ``proceed`` in a later iteration, when it is the connection's turn."""
        self._waiting.append(proceed)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next_iteration)

    def _next_iteration(self) -> None:
        """Give waiting connections their turns at the beginning of an iteration.

        The event loop calls this method before it reads from any socket.
        """
        self._scheduled, self._spent = False, 0.0
        try:
            for _ in range(len(self._waiting)):  # a connection that waits again is not called twice
                if self._spent >= TURNS:
                    break
                self._waiting.popleft()()
        finally:
            if self._waiting:
                self._schedule()
