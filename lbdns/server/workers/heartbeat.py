"""Heartbeats: the main process requests a reply from each child process twice a second, and replaces hung processes.

The main process counts missing replies rather than the time since the last reply. While the main process itself is
stopped or suspended, it requests no replies, so no replies are missing.
"""

from __future__ import annotations

from typing import Final

PERIOD: Final = 0.5  # s between heartbeats; each costs the main process about 30 us per worker
LATE: Final = 2  # periods without a reply, after which the process counts as unhealthy
HUNG: Final = 6  # periods without a reply, after which the process is replaced: 3 s
#: The same for a process that wants to run but gets hardly any CPU time: its replacement would get no more
STARVED: Final = 24


class Heartbeat:
    """Counts one process's unanswered heartbeats. The caller calls ``beat`` once in each period."""

    def __init__(self) -> None:
        self._unanswered = 0

    def beat(self) -> None:
        """Record a heartbeat."""
        self._unanswered += 1

    def replied(self) -> None:
        """Record a reply to any heartbeat; any reply shows that the process is not hung."""
        self._unanswered = 0

    @property
    def silent_periods(self) -> int:
        """Return the number of periods that have passed without a reply to the oldest unanswered heartbeat."""
        return max(0, self._unanswered - 1)

    @property
    def silence(self) -> str:
        """Return the time without a reply as text, such as "1.5 s", or an empty string if no reply is late."""
        return f"{self.silent_periods * PERIOD:g} s" if self.silent_periods >= LATE else ""

    @property
    def is_hung(self) -> bool:
        """Return whether the process has been silent for so long that it must be replaced.

        A process that gets hardly any CPU time is an exception (see ``STARVED``).

        Check this property immediately before a heartbeat.
        """
        return self._unanswered >= HUNG

    @property
    def is_starved_too_long(self) -> bool:
        """Return whether the process must be replaced even if it is starved."""
        return self._unanswered >= STARVED
