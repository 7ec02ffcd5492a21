"""The next answers of each pool, as one worker plans them; the status document shows these answers.

The main process makes no plans if workers answer, so it asks a worker. A status document cannot wait for the reply, so
it shows the newest reply, and causes the next request. Without readers, no worker is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

PATIENCE: Final = 1.0  # s to wait for a reply before the next request
KEPT: Final = 5.0  # s after which a reply is too old to show


class UpcomingAnswers:
    """Keeps the newest reply for each pool. At most one request is open, so that a worker has little to do at once."""

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
        """Forget all replies: another configuration is in force, and its pools may differ."""
        self._replies.clear()
        self._due.clear()
        self._open = None
