"""The live history of a running program. The event loop hands over samples and events, and a thread writes them.

Nothing here waits for the disk. Data that cannot be written is dropped and counted, and writing is retried later.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.config.recording_sections import HistoryConfig
from lbdns.events.event_log import EventLog, LoggedEvent
from lbdns.history.history_reader import HistoryReader
from lbdns.history.history_sample import HistorySample
from lbdns.history.history_series import HistorySeries
from lbdns.history.history_writer import HistoryWriter, breathe

COMMIT_EVERY: Final = 5.0  # s
RETRY: Final = 10.0  # s before writing is retried after a failure
MAX_MEMBERS: Final = 2000  # members up to which a sample is taken every second; a sample of 2000 takes some 40 ms


@dataclass(frozen=True, slots=True)
class HistoryStatus:
    """The state of recording. ``dropped``: samples and events lost so far. ``bytes``: the file's size with its log."""

    on: bool
    ok: bool
    error: str
    dropped: int
    bytes: int


class LiveHistory:
    """Records one program's history, and reads it in threads. Call its methods in the event loop."""

    def __init__(
        self,
        path: Path,
        config: HistoryConfig,
        events: EventLog,
        *,
        commit_every: float = COMMIT_EVERY,
        retry: float = RETRY,
    ) -> None:
        self.path = path
        self._config, self._events = config, events
        self._commit_every, self._retry = commit_every, retry
        self._writer: HistoryWriter | None = None
        self._dropped = 0  # by earlier writers
        self._unsubscribe: Callable[[], None] | None = None
        self._last_taken = -math.inf  # monotonic seconds of the last sample

    async def start(self) -> None:
        """Start recording if the configuration says so. Does not open the file yet, and never raises."""
        if self._config.on and self._writer is None:
            loop = asyncio.get_running_loop()

            def log(text: str, level: int) -> None:
                loop.call_soon_threadsafe(
                    lambda: self._events.record("history", text, level=level, logger="lbdns.history")
                )

            self._writer = HistoryWriter(self.path, self._config, log, self._commit_every, self._retry)
            self._unsubscribe = self._events.subscribe(self.record_event)
            self._writer.start()

    async def stop(self) -> None:
        """Write everything that waits, and stop."""
        writer, self._writer = self._writer, None
        if self._unsubscribe:
            self._unsubscribe()
            self._unsubscribe = None
        if writer is not None:
            await asyncio.to_thread(writer.stop)
            self._dropped += writer.dropped

    async def reconfigure(self, config: HistoryConfig, path: Path | None = None) -> None:
        """Use another configuration, and another file if ``path`` is given."""
        moved = path is not None and path != self.path
        if self._writer is not None and (moved or not config.on):
            await self.stop()
        if path is not None:
            self.path = path
        self._config = config
        if self._writer is not None:
            self._writer.configure(config)
        await self.start()

    def record_sample(self, sample: HistorySample) -> None:
        """Queue a sample for writing. Call it once a second; it takes a microsecond."""
        if self._writer is None:
            return
        pause = sample.size / MAX_MEMBERS - 0.5  # 0.5: the caller's period is not exact
        if pause > 1 and sample.now - self._last_taken < pause:
            return
        self._last_taken = sample.now
        self._writer.put(sample)

    def record_event(self, event: LoggedEvent) -> None:
        """Queue an event for writing; ``start`` subscribes this method to the event log."""
        if self._writer is not None:
            self._writer.put(event)

    @property
    def status(self) -> HistoryStatus:
        """The state of recording."""
        writer = self._writer
        if writer is None:
            return HistoryStatus(False, True, "", self._dropped, 0)
        return HistoryStatus(True, not writer.error, writer.error, self._dropped + writer.dropped, writer.bytes)

    async def series(
        self, pool: str, metric: str, members: Sequence[str], start: float, end: float, points: int
    ) -> HistorySeries:
        """Run ``HistoryReader.series`` in a thread.

        The last few seconds may be missing, and before the first commit there is nothing.
        """
        if not self.path.exists():
            return HistorySeries(pool, metric, "raw", 1.0, (), {})
        reader = HistoryReader(self.path, breathe)
        return await asyncio.to_thread(reader.series, pool, metric, members, start, end, points)

    async def events(self, since: float = 0.0, limit: int = 1000, kind: str = "") -> list[LoggedEvent]:
        """Run ``HistoryReader.events`` in a thread."""
        return await asyncio.to_thread(HistoryReader(self.path).events, since, limit, kind)
