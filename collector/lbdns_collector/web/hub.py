"""The hub: turns changes of the source into events for all streams, each event built once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections.abc import Callable, Mapping
from typing import Final

from lbdns.snapshot import Reading
from lbdns_collector.event_stream import encode_event
from lbdns_collector.publish import SHARE
from lbdns_collector.status import FOLLOWER_KEEP_ALIVE, PAGE_KEEP_ALIVE, Changes, changed_members, outlook
from lbdns_collector.web.render import status_json, status_json_async, to_json
from lbdns_collector.web.source import StatusSource, situation
from lbdns_collector.web.streams import MAX_STREAMS, Stream

PAGE_GAP: Final = 0.1  # seconds between two whole documents: as fast as an eye follows
AT_ONCE: Final = 100  # members in one event for followers: about 2 ms of work before others have their turn
BREATH: Final = 0.005  # seconds from one such event to the next: with too little CPU time, reports come first
TICK: Final = 1.0  # seconds between looks for what changes without a report: states by age, counts of answers


class Hub:
    """Two kinds of streams: *pages* get the whole status as it changes, *followers* the members that changed.

    Followers are told in the event loop's next turn after a snapshot, a bounded number of members at a time:
    between two events reports are read and queries answered, however many members changed. Pages wait for
    a task that paces itself.
    """

    def __init__(self, source: StatusSource) -> None:
        self._source = source
        self._pages: set[Stream] = set()
        self._followers: set[Stream] = set()
        self._changes = Changes(source.farm)
        self._untold: dict[str, None] = {}  # members that changed, in the order in which they did
        self._turn: asyncio.Handle | None = None
        self._told: Mapping[str, Reading] = source.snapshot.readings
        self._dirty = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = _nothing

    def start(self) -> None:
        self._unsubscribe = self._source.subscribe(self._changed)
        self._task = asyncio.get_running_loop().create_task(self._serve_pages())

    def end_streams(self) -> None:
        """Let every reader go: the program is stopping."""
        for stream in self._pages | self._followers:
            stream.end()

    async def stop(self) -> None:
        self._unsubscribe()
        self.end_streams()
        if self._turn is not None:
            self._turn.cancel()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    @property
    def streams(self) -> int:
        """Streams that are open."""
        return len(self._pages) + len(self._followers)

    @property
    def is_full(self) -> bool:
        return self.streams >= MAX_STREAMS

    async def open(self, abort: Callable[[], None], follows: bool) -> tuple[Stream, bytes]:
        """A stream and its first event, the whole status: what changes after it is in the stream already."""
        stream = Stream(abort, FOLLOWER_KEEP_ALIVE if follows else PAGE_KEEP_ALIVE)
        (self._followers if follows else self._pages).add(stream)
        self._dirty.set()
        try:
            return stream, encode_event("status", await status_json_async(situation(self._source)))
        except BaseException:
            self.close(stream)
            raise

    def close(self, stream: Stream) -> None:
        stream.end()
        self._pages.discard(stream)
        self._followers.discard(stream)

    def _changed(self) -> None:
        self._dirty.set()
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._tell_followers)

    def _tell_followers(self) -> None:
        self._turn = None
        before, self._told = self._told, self._source.snapshot.readings
        reloaded = self._source.farm is not self._changes.farm
        if reloaded:
            self._changes = Changes(self._source.farm)
        if not self._followers or reloaded:
            self._untold.clear()
        if not self._followers:
            return
        if reloaded:
            self._push(encode_event("status", status_json(situation(self._source))))
            return
        if before is not self._told:
            self._untold.update(dict.fromkeys(changed_members(before, self._told)))
        some = list(itertools.islice(self._untold, AT_ONCE))
        for name in some:
            del self._untold[name]
        document = self._changes.build(some, self._told, time.monotonic())
        if document["pools"]:
            self._push(encode_event("changes", to_json(document)))
        if self._untold:
            self._turn = asyncio.get_running_loop().call_later(BREATH, self._tell_followers)

    def _push(self, event: bytes) -> None:
        for stream in tuple(self._followers):
            stream.push(event)

    async def _serve_pages(self) -> None:
        before: object = None
        while True:
            reported = await self._wait()
            if not self._pages:
                continue
            started = time.monotonic()
            now = situation(self._source)
            signature, _ = outlook(now)
            if not reported and signature == before:
                continue
            before = signature
            event = encode_event("status", await status_json_async(now))
            for stream in tuple(self._pages):
                stream.push(event)
            await asyncio.sleep(max(PAGE_GAP, SHARE * (time.monotonic() - started)))

    async def _wait(self) -> bool:
        """Until something changed (True), or it is time to look whether something did by itself."""
        timeout = None
        if self._pages:
            _, next_change = outlook(situation(self._source))
            timeout = min(TICK, max(0.0, next_change - time.monotonic()) if math.isfinite(next_change) else TICK)
        try:
            await asyncio.wait_for(self._dirty.wait(), timeout)
        except TimeoutError:
            return False
        self._dirty.clear()
        return True


def _nothing() -> None:
    pass
