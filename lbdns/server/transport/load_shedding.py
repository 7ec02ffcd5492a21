"""Load shedding: drops most uncommon queries if a UDP socket receives more than the process can answer.

Common queries take very little CPU time; all other queries take far more. Without load shedding, a flood of malformed
queries or queries for nonexistent names would consume all CPU time. Common queries that arrive during such a flood
would be lost. If a socket's receive queue has been non-empty for more than PATIENCE seconds, only a few queries in each
batch take the slow path. All other queries that need the slow path are dropped. Sans-I/O: the caller supplies the
current time.
"""

from __future__ import annotations

from typing import Final

PATIENCE: Final = 0.02  # s that a socket may stay full: enough to answer a burst of a few hundred uncommon queries
#: s that a socket may stay full until it is emptied for the first time: while a server was restarted, thousands of
#: queries may have arrived, which are a backlog and no overload
FIRST_PATIENCE: Final = 2.0
HOLD: Final = 10.0  # s that shedding lasts: a shorter time would let the socket fill up again and lose common queries
SPARED: Final = 4  # queries of each batch that still take the slow path


class LoadShedder:
    """Decides which queries on one socket to drop. Times are in monotonic seconds."""

    __slots__ = ("_full_since", "_left", "_patience", "shed", "until")

    def __init__(self) -> None:
        self.shed = 0  # queries dropped
        self.until = 0.0  # the socket is overloaded until this time
        self._full_since = 0.0  # 0 while each read empties the socket
        self._left = SPARED
        self._patience = FIRST_PATIENCE

    def note(self, emptied: bool, now: float) -> None:
        """Record whether reading a batch emptied the receive queue. Call this method after each batch."""
        self._left = SPARED
        if emptied:
            self._full_since = 0.0
            self._patience = PATIENCE
        elif not self._full_since:
            self._full_since = now
        elif now - self._full_since > self._patience:
            self._patience = PATIENCE
            self.until = now + HOLD

    def sheds(self) -> bool:
        """Return whether to drop the next query that needs the slow path.

        Do not call this method after the time ``until``.
        """
        self._left -= 1
        if self._left < 0:
            self.shed += 1
        return self._left < 0
