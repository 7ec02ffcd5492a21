"""The rate measurement of the 2014 scaler: whole sessions per second, from a load balancer's cumulative counter."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

RELOAD_SECONDS: Final = 60  # s: the balancer is reloaded one period before the reading


@dataclass(frozen=True, slots=True)
class CounterReading:
    """The counter of sessions since the balancer's last reload, read at a Unix time in seconds."""

    time: float
    sessions: int


@dataclass(frozen=True, slots=True)
class SessionRate:
    """The number of sessions per second, rounded up, and the length of the measured period in whole seconds."""

    per_s: int
    seconds: int

    @property
    def sessions(self) -> int:
        """The number of sessions in the period, computed from the rounded rate."""
        return self.per_s * self.seconds


def session_rate(before: CounterReading, now: CounterReading, *, reloaded: bool) -> SessionRate:
    """Return the rate between two readings.

    If ``reloaded`` is true, the balancer was reloaded between the two readings, and its counter restarted at 0, one
    period (60 s) before the reading ``now``. Comparing the counters would not reveal the reload, because the new count
    can exceed the old one. Raises ValueError if less than a second has passed.
    """
    if reloaded:
        return SessionRate(ceil(now.sessions / RELOAD_SECONDS), RELOAD_SECONDS)
    seconds = int(now.time - before.time)
    if seconds < 1:
        raise ValueError(f"the readings must be at least 1 s apart, not {now.time - before.time:g} s")
    return SessionRate(ceil((now.sessions - before.sessions) / seconds), seconds)
