"""Limits how often new snapshots are published.

This module is sans-I/O: the caller supplies the clock and the timers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lbdns.model.snapshot import Snapshot
from lbdns.process.duty_cycle import DutyCycle

#: Publishing takes at most about a tenth of a core, and no report waits longer than a second
PUBLISHING: Final = DutyCycle(10.0, longest=1.0)
#: Gathers changes, because a publication costs nearly as much CPU time for one report as for ten. A gap of 10 ms delays
#: no answer noticeably
GATHERING: Final = DutyCycle(40.0, longest=0.01)


class SnapshotPublisher:
    """A publisher of snapshots that limits their rate. The first change is published immediately.

    Later changes are collected and published together after a gap.

    The gap is proportional to the time needed for publishing a snapshot. With three members, the gap is a few
    milliseconds; with ten thousand members, it is longer. If the last two snapshots took different times to publish,
    the shorter time determines the gap, so that a single slow publication does not delay the next report.
    """

    def __init__(
        self,
        make: Callable[[], Snapshot],
        deliver: Callable[[Snapshot], None],
        call_later: Callable[[float, Callable[[], None]], Any],  # returns a timer with ``cancel``
        clock: Callable[[], float],
    ) -> None:
        self._make, self._deliver = make, deliver
        self._call_later, self._clock = call_later, clock
        self._pause = self._pause_before = 0.0  # seconds, after each of the last two publications
        self._finished = float("-inf")
        self._timer: Any = None
        self._version = 0

    @property
    def gap(self) -> float:
        """The number of seconds between two publications while changes keep arriving."""
        return min(self._pause, self._pause_before)

    def changed(self) -> None:
        """Publish a change immediately, or as soon as ``gap`` seconds have passed since the last publication."""
        if self._timer is not None:
            return
        wait = self._finished + self.gap - self._clock()
        if wait <= 0.0:
            self._publish()
        else:
            self._timer = self._call_later(wait, self._publish)

    def stop(self) -> None:
        """Stop publishing, and discard pending changes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _publish(self) -> None:
        self._timer = None
        started = self._clock()
        snapshot = self._make()
        try:
            if snapshot.version != self._version:
                self._version = snapshot.version
                self._deliver(snapshot)
        finally:
            self._finished = self._clock()
            self._pause_before = self._pause
            took = self._finished - started
            self._pause = max(PUBLISHING.pause_after(took), GATHERING.pause_after(took))
