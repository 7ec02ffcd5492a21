"""Heartbeats: the main process asks each of its processes twice a second for a reply, and replaces those that hang.

Missing replies are counted, and not the time since the last one: while the main process itself is stopped or suspended,
it asks for nothing and therefore misses nothing.
"""

from __future__ import annotations

from typing import Final

PERIOD: Final = 0.5  # s between heartbeats; each costs the main process about 30 us per worker
LATE: Final = 2  # periods without a reply, after which the process counts as unhealthy
HUNG: Final = 6  # periods without a reply, after which the process is replaced: 3 s
#: The same for a process that wants to run but gets hardly any CPU time: its replacement would get no more
STARVED: Final = 24


class Heartbeat:
    """Counts the heartbeats of one process that have had no reply. The caller beats once in each period."""

    def __init__(self) -> None:
        self._unanswered = 0

    def beat(self) -> None:
        """Record a heartbeat."""
        self._unanswered += 1

    def replied(self) -> None:
        """Record a reply, to whichever heartbeat: at that time, the process was working."""
        self._unanswered = 0

    @property
    def silent_periods(self) -> int:
        """The number of periods that have passed without a reply to the oldest unanswered heartbeat."""
        return max(0, self._unanswered - 1)

    @property
    def silence(self) -> str:
        """For how long the process has not replied, for messages. Empty while its replies are not late."""
        return f"{self.silent_periods * PERIOD:g} s" if self.silent_periods >= LATE else ""

    @property
    def is_hung(self) -> bool:
        """Whether to replace the process unless it is starved. Ask immediately before a heartbeat."""
        return self._unanswered >= HUNG

    @property
    def is_starved_too_long(self) -> bool:
        """Whether to replace the process even if it is starved."""
        return self._unanswered >= STARVED
