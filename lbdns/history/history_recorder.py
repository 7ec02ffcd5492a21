"""The history recorder: fills and writes the chunks of every tier, and deletes old data.

The recorder uses no clock and no thread.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from lbdns.config.recording_sections import HistoryConfig
from lbdns.events.event_log import LoggedEvent
from lbdns.history.history_chunk import (
    MINUTE,
    RAW,
    TEN_SECONDS,
    TIERS,
    ChunkColumn,
    Downsampler,
    HistoryChunk,
    HistoryTier,
    retention,
)
from lbdns.history.history_sample import ColumnBuilder, HistoryMoment, HistorySample
from lbdns.history.history_store import HistoryStore

EVENTS_AT_ONCE: Final = 5000  # events per transaction, so that the write-ahead log stays short
EVENTS_PER_REST: Final = 50  # events converted between two pauses, about 0.1 ms of work


class HistoryRecorder:
    """A recorder that manages the unwritten data and the open history file.

    The attribute ``config`` may be replaced at any time.
    """

    def __init__(self, path: Path, config: HistoryConfig, rest: Callable[[], None] = lambda: None) -> None:
        """``rest`` is called after each small piece of work; the callback may pause to let other threads run."""
        self.path, self.config = path, config
        self.bytes = 0
        self._rest = rest
        self._store: HistoryStore | None = None
        self._events: deque[LoggedEvent] = deque()
        self._pools: dict[str, tuple[str, Mapping[str, str]]] = {}  # as in the file
        self._new_pools: dict[str, tuple[str, Mapping[str, str]]] = {}
        self._now = 0.0
        # Milliseconds added to keys, so that two processes can both write means during a take-over
        self._salt = random.randrange(1000)
        self._forget()

    def _forget(self) -> None:
        """Discard all unwritten samples, and start again with empty chunks."""
        self._columns = ColumnBuilder()
        self._tens, self._minutes = Downsampler(TEN_SECONDS.step), Downsampler(MINUTE.step)
        self._chunks: dict[str, HistoryChunk] = {tier.name: HistoryChunk(tier) for tier in TIERS}
        self._full: list[HistoryChunk] = []
        self._changed: set[str] = set()  # tiers whose last chunk has unwritten data
        self._unwritten = 0  # samples

    @property
    def unwritten_events(self) -> int:
        return len(self._events)

    def add_event(self, event: LoggedEvent) -> None:
        """Add an event.

        Events remain in memory until ``commit`` succeeds, so the caller must limit ``unwritten_events``.
        """
        self._events.append(event)

    def add_sample(self, sample: HistorySample) -> None:
        """Add a sample to the chunks of all tiers."""
        self._now = sample.time
        self._unwritten += 1
        for pool in sample.pools:
            about = pool.zone, pool.policies
            if self._pools.get(pool.name) != about:
                self._pools[pool.name] = self._new_pools[pool.name] = about
        moment = self._columns.build(sample)
        self._rest()
        self._append(RAW, moment)
        if ten := self._tens.add(moment):
            self._add_ten_seconds(ten)
        self._rest()

    def _add_ten_seconds(self, ten: HistoryMoment) -> None:
        self._append(TEN_SECONDS, ten)
        if minute := self._minutes.add(ten):
            self._append(MINUTE, minute)

    def _append(self, tier: HistoryTier, moment: HistoryMoment) -> None:
        if not retention(self.config)[tier.name]:
            return
        moment.pack()
        chunk = self._chunks[tier.name]
        if not chunk.accepts(moment):
            self._full.append(chunk)
            chunk = self._chunks[tier.name] = HistoryChunk(tier)
        chunk.add(moment)
        self._changed.add(tier.name)

    def commit(self) -> None:
        """Write all new data, and delete expired data. Raises LbdnsError, sqlite3.Error or OSError."""
        if self._store is not None and not self._store.is_there:
            self._close_store()
            for chunk in (*self._chunks.values(), *self._full):
                chunk.parts.clear()
        if self._store is None:
            self._store = HistoryStore(self.path)
            self._new_pools = dict(self._pools)
        while self._events:
            count = min(len(self._events), EVENTS_AT_ONCE)
            self._store.write((), self._next_events(count), {})
            for _ in range(count):
                self._events.popleft()
        self._write_chunks(self._store)
        self._full.clear()
        self._changed.clear()
        self._new_pools.clear()
        self._unwritten = 0
        if self._now:
            spans = retention(self.config)
            oldest = {tier.table: self._now - spans[tier.name] - tier.chunk for tier in TIERS}
            self._store.prune(oldest, self._now - self.config.keep_1min)
        self.bytes = self._store.bytes

    def _write_chunks(self, store: HistoryStore) -> None:
        """Write the complete chunks as a whole, in place of their parts, and the new moments of the last chunks."""
        full = [chunk for chunk in self._full if chunk.parts or chunk.moments]
        last = [self._chunks[name] for name in self._changed]
        chunks = [
            *((chunk.tier, self._key(chunk.tier, chunk.begin), self._listed(chunk.columns(store))) for chunk in full),
            *(
                (chunk.tier, self._key(chunk.tier, chunk.moments[0].time), self._listed(chunk.columns()))
                for chunk in last
            ),
        ]
        parts = [(chunk.tier, part.milliseconds) for chunk in full for part in chunk.parts]
        store.write(chunks, (), self._new_pools, parts)
        for chunk in last:
            if chunk.tier is not RAW:  # a raw chunk is complete so soon that parts would be more work
                chunk.end_part(self._key(chunk.tier, chunk.moments[0].time))

    def _key(self, tier: HistoryTier, time: float) -> int:
        return round(time * 1000) + (0 if tier is RAW else self._salt)

    def _listed(self, columns: Iterable[ChunkColumn]) -> list[ChunkColumn]:
        found = []
        for column in columns:
            found.append(column)
            self._rest()
        return found

    def _next_events(self, count: int) -> Iterator[LoggedEvent]:
        for number, event in enumerate(islice(self._events, count)):
            if number % EVENTS_PER_REST == 0:
                self._rest()
            yield event

    def abandon(self) -> int:
        """Close the file and drop all unwritten data except events. Return the number of lost samples."""
        lost = self._unwritten
        self._close_store()
        self._forget()
        return lost

    def finish(self) -> None:
        """Write all data, including the means of unfinished steps. Raises the same errors as ``commit``."""
        if ten := self._tens.finish():
            self._add_ten_seconds(ten)
        if minute := self._minutes.finish():
            self._append(MINUTE, minute)
        # The last chunks are complete now, and therefore written as a whole
        unfinished = [chunk for chunk in self._chunks.values() if chunk.moments or chunk.parts]
        self._full += unfinished
        self._changed.clear()
        self._chunks = {tier.name: HistoryChunk(tier) for tier in TIERS}
        self.commit()
        self._close_store()

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
