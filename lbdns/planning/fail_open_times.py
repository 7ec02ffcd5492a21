"""Count how often pools have failed open, and for how long. Sans-I/O: time is an argument, in monotonic seconds."""

from __future__ import annotations


class FailOpenTimes:
    """The fail-open statistics of all pools."""

    def __init__(self) -> None:
        self.count = 0  # of all pools
        self._seconds: dict[str, float] = {}  # pool -> total of its ended periods
        self._since: dict[str, float] = {}  # pool that fails open now -> when it began

    def begin(self, pool: str, now: float) -> None:
        """Note that ``pool`` begins to fail open."""
        self.count += 1
        self._since.setdefault(pool, now)

    def end(self, pool: str, now: float) -> None:
        """Note that ``pool`` no longer fails open."""
        self._seconds[pool] = self.seconds(pool, now)
        self._since.pop(pool, None)

    def seconds(self, pool: str, now: float) -> float:
        """Return the seconds for which ``pool`` has failed open in all."""
        return self._seconds.get(pool, 0.0) + now - self._since.get(pool, now)
