"""Fetches each pool's next answers from a worker, for the status document.

If workers answer the queries, the main process has no plans of its own, so it asks a worker. A client that requests the
status document must not wait for the worker's reply. The document therefore contains the worker's last reply, and the
main process asks the worker for a new one. If the status document is not requested, no worker is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

PATIENCE: Final = 1.0  # s to wait for a reply before the next request
KEPT: Final = 5.0  # s after which a reply is too old to show


class UpcomingAnswers:
    """Keeps the newest reply for each pool. At most one request is outstanding at a time, to limit the load on the
    workers."""

    def __init__(self, ask: Callable[[int, str], bool], clock: Callable[[], float] = time.monotonic) -> None:
        """``ask`` sends a request with a number and a pool's name, and returns whether any worker can reply."""
        self._ask, self._clock = ask, clock
        self._replies: dict[str, tuple[float, Mapping[str, Any]]] = {}  # pool -> when it came, and what it says
        self._due: dict[str, None] = {}  # pools to ask about, in the order in which they were read
        self._open: tuple[int, str, float] | None = None  # number, pool, when it was sent
        self._number = 0

    def read(self, pool: str) -> Mapping[str, Any]:
        """Return the newest reply for ``pool``, or an empty mapping if there is none, and ask for a new one."""
        self._due[pool] = None
        self._send()
        received, reply = self._replies.get(pool, (0.0, {}))
        return reply if reply and self._clock() < received + KEPT else {}

    def take(self, number: int, reply: Mapping[str, Any]) -> None:
        """Record the ``reply`` to request ``number``, and send the next request. Late replies are ignored."""
        if self._open is None or self._open[0] != number:
            return
        self._replies[self._open[1]] = self._clock(), reply
        self._open = None
        self._send()

    def _send(self) -> None:
        now = self._clock()
        if self._open and now < self._open[2] + PATIENCE:
            return
        self._open = None
        if self._due:
            pool = next(iter(self._due))
            self._number += 1
            if self._ask(self._number, pool):
                del self._due[pool]
                self._open = self._number, pool, now
            else:
                self._due.clear()

    def forget(self) -> None:
        """Discard all replies, because the pools may differ in the new configuration."""
        self._replies.clear()
        self._due.clear()
        self._open = None
