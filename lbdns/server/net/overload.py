"""When more arrives than can be answered: who is let down, so that the others are not. Pure: time is an argument.

Usual queries cost next to nothing, all others many times that. A flood of garbage, or of names that don't exist, would
take all the time there is, and the usual ones would wait behind it until they are lost. So when a socket has not been
empty for a moment, of each batch that is read only a few queries take the long way; the others are left unanswered.
"""

from __future__ import annotations

from typing import Final

PATIENCE: Final = 0.02  # s that a socket may stay full: bursts of a few hundred unusual queries are answered whole
HOLD: Final = 10.0  # s that it lasts: to wait once more for the socket to fill up would cost the usual ones again
SPARED: Final = 4  # queries of a batch that take the long way all the same


class Overload:
    """Of one socket."""

    __slots__ = ("_full_since", "_left", "_until", "shed")

    def __init__(self) -> None:
        self.shed = 0  # queries left unanswered
        self._full_since = 0.0  # monotonic seconds; 0 while the socket is emptied whenever it is read
        self._until = 0.0
        self._left = 0

    def note(self, emptied: bool, now: float) -> None:
        """The socket was read, and now has nothing more in it, or perhaps it has."""
        if emptied:
            self._full_since = 0.0
        elif not self._full_since:
            self._full_since = now
        elif now - self._full_since > PATIENCE:
            self._until = now + HOLD

    def begin(self, now: float) -> bool:
        """A batch is going to be read: whether there is more to do than can be done."""
        self._left = SPARED
        return now < self._until

    def sheds(self) -> bool:
        """While overloaded: whether the next query that would take the long way is left unanswered."""
        self._left -= 1
        if self._left < 0:
            self.shed += 1
        return self._left < 0
