"""Samples and events -> the file: chunks of all tiers filled, written, forgotten in time. Of one thread, which need not
be one: whoever has virtual time calls it as he likes."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from lbdns.config.history import HistoryConfig
from lbdns.events import Event
from lbdns.history.chunk import Cell, Chunk, Means
from lbdns.history.columns import Columns, Moment
from lbdns.history.sample import Sample
from lbdns.history.store import Store
from lbdns.history.tiers import MINUTE, RAW, TEN_SECONDS, TIERS, Tier, kept

MAX_EVENTS: Final = 1000  # that wait for a file that can be written


class Recorder:
    """What is not in the file yet, and the file. ``config`` may be replaced at any time."""

    def __init__(self, path: Path, config: HistoryConfig, rest: Callable[[], None] = lambda: None) -> None:
        """``rest`` is called after each bit of work, for who shares a processor, or an interpreter, with others."""
        self.path, self.config = path, config
        self.bytes = 0
        self._rest = rest
        self._store: Store | None = None
        self._events: deque[Event] = deque()
        self._pools: dict[str, tuple[str, Mapping[str, str]]] = {}  # as they are in the file
        self._new_pools: dict[str, tuple[str, Mapping[str, str]]] = {}
        self._now = 0.0
        # Of a key, besides the seconds: two processes may write the same means during a take-over
        self._salt = random.randrange(1000)
        self._forget()

    def _forget(self) -> None:
        """Begin anew, with no file and nothing to write."""
        self._columns = Columns()
        self._tens, self._minutes = Means(TEN_SECONDS.step), Means(MINUTE.step)
        self._chunks: dict[str, Chunk] = {tier.name: Chunk(tier) for tier in TIERS}
        self._full: list[Chunk] = []
        self._changed: set[str] = set()  # tiers whose last chunk has what the file doesn't
        self._unwritten = 0  # samples

    def add(self, event: Event) -> int:
        """Returns how many had to be dropped for it."""
        self._events.append(event)
        if len(self._events) <= MAX_EVENTS:
            return 0
        self._events.popleft()
        return 1

    def take(self, sample: Sample) -> None:
        self._now = sample.time
        self._unwritten += 1
        for pool in sample.pools:
            about = pool.zone, pool.policies
            if self._pools.get(pool.name) != about:
                self._pools[pool.name] = self._new_pools[pool.name] = about
        moment = self._columns.of(sample)
        self._rest()
        self._append(RAW, moment)
        if ten := self._tens.take(moment):
            self._take_ten(ten)
        self._rest()

    def _take_ten(self, ten: Moment) -> None:
        self._append(TEN_SECONDS, ten)
        if minute := self._minutes.take(ten):
            self._append(MINUTE, minute)

    def _append(self, tier: Tier, moment: Moment) -> None:
        if not kept(self.config)[tier.name]:
            return
        chunk = self._chunks[tier.name]
        if not chunk.takes(moment):
            self._full.append(chunk)
            chunk = self._chunks[tier.name] = Chunk(tier)
        chunk.moments.append(moment)
        self._changed.add(tier.name)

    def commit(self) -> None:
        """Write what there is, and forget what is too old. Raises LbdnsError, sqlite3.Error or OSError."""
        if self._store is not None and not self._store.is_there:
            self._close_store()
        if self._store is None:
            self._store = Store(self.path)
            self._new_pools = dict(self._pools)
        last = [self._chunks[name] for name in self._changed]
        self._store.write([self._encoded(c) for c in (*self._full, *last)], self._events, self._new_pools)
        self._full.clear()
        self._changed.clear()
        self._events.clear()
        self._new_pools.clear()
        self._unwritten = 0
        if self._now:
            spans = kept(self.config)
            oldest = {tier.table: self._now - spans[tier.name] - tier.chunk for tier in TIERS}
            self._store.prune(oldest, self._now - self.config.keep_1min)
        self.bytes = self._store.bytes

    def _encoded(self, chunk: Chunk) -> tuple[Tier, int, list[Cell]]:
        cells = []
        for cell in chunk.cells():
            cells.append(cell)
            self._rest()
        salt = 0 if chunk.tier is RAW else self._salt
        return chunk.tier, round(chunk.start * 1000) + salt, cells

    def abandon(self) -> int:
        """Give up what is not written, but for events, and the file. Returns how many samples that were."""
        lost = self._unwritten
        self._close_store()
        self._forget()
        return lost

    def finish(self) -> None:
        """Write everything, also means of spans that are not over. Raises as ``commit``."""
        if ten := self._tens.rest():
            self._take_ten(ten)
        if minute := self._minutes.rest():
            self._append(MINUTE, minute)
        self.commit()
        self._close_store()

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
