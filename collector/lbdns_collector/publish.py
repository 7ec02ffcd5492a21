"""Publishing: many changes, fewer snapshots. Pure: clock and timers are passed in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from lbdns.snapshot import Snapshot

SHARE: Final = 10.0  # a pause of ten times the work: publishing takes at most about a tenth of the core
COPIES: Final = 40.0  # a pause of forty times what making the snapshot takes, which grows with the farm ...
COPY_GAP: Final = 0.01  # ... but for this no longer than 10 ms: nobody would notice more, and less costs CPU time
MAX_GAP: Final = 1.0  # seconds; however much there is to do, nobody waits longer


class Timer(Protocol):
    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]


class Publisher:
    """Hands a snapshot on at the first change at once, and further changes together after a gap.

    The gap follows from what publishing takes, so that three members are published within a millisecond or
    two of each report and ten thousand in fewer, larger steps. Of the last two publishings the shorter one
    counts: a single hiccup of the machine doesn't delay the next report.
    """

    def __init__(
        self,
        make: Callable[[], Snapshot],
        deliver: Callable[[Snapshot], None],
        call_later: CallLater,
        clock: Callable[[], float],
    ) -> None:
        self._make, self._deliver = make, deliver
        self._call_later, self._clock = call_later, clock
        self._pause = self._pause_before = 0.0  # seconds, after each of the last two publishings
        self._finished = float("-inf")
        self._timer: Timer | None = None
        self._version = 0

    @property
    def gap(self) -> float:
        """Seconds from one publishing to the next while changes keep coming."""
        return min(self._pause, self._pause_before, MAX_GAP)

    def changed(self) -> None:
        """Something changed: publish now, or soon."""
        if self._timer is not None:
            return
        wait = self._finished + self.gap - self._clock()
        if wait <= 0.0:
            self._publish()
        else:
            self._timer = self._call_later(wait, self._publish)

    def stop(self) -> None:
        """Publish nothing more that isn't published yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _publish(self) -> None:
        self._timer = None
        started = self._clock()
        snapshot = self._make()
        made = self._clock()
        try:
            if snapshot.version != self._version:
                self._version = snapshot.version
                self._deliver(snapshot)
        finally:
            self._finished = self._clock()
            self._pause_before = self._pause
            self._pause = max(SHARE * (self._finished - started), min(COPIES * (made - started), COPY_GAP))
