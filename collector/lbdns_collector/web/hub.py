"""The hub: turns changes of the source into events for all streams, each event built once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, Literal

from lbdns.event_stream import encode_event
from lbdns.events import Event
from lbdns.snapshot import Reading
from lbdns_collector.publish import MAX_GAP, SHARE
from lbdns_collector.status import (
    FOLLOWER_KEEP_ALIVE,
    PAGE_KEEP_ALIVE,
    Changes,
    Situation,
    changed_members,
    outlook,
)
from lbdns_collector.web.gate import Gate
from lbdns_collector.web.render import status_json, to_json
from lbdns_collector.web.shared import Shared
from lbdns_collector.web.source import StatusSource, situation
from lbdns_collector.web.streams import MAX_STREAMS, Stream

log = logging.getLogger("lbdns.web")

#: What a reader wants: the status as it changes and what happens, what happens alone, or what reports change.
Wants = Literal["page", "log", "changes"]

PAGE_GAP: Final = 0.1  # seconds between two whole documents: as fast as an eye follows
AT_ONCE: Final = 100  # members in one event for followers: about 2 ms of work before others have their turn
BREATH: Final = 0.005  # seconds from one such event to the next: with too little CPU time, reports come first
TICK: Final = 1.0  # seconds between looks for what changes without a report: states by age, counts of answers


class Hub:
    """Two kinds of streams: *pages* get the whole status as it changes, *followers* the members that changed.

    Followers are told in the event loop's next turn after a snapshot, a bounded number of members at a time:
    between two events reports are read and queries answered, however many members changed. Pages wait for
    a task that passes the gate.
    """

    def __init__(self, source: StatusSource, gate: Gate, status: Shared) -> None:
        self._source, self._gate, self._status = source, gate, status
        self._streams: dict[Wants, set[Stream]] = {"page": set(), "log": set(), "changes": set()}
        self._changes = Changes(source.farm)
        self._untold: dict[str, None] = {}  # members that changed, in the order in which they did
        self._turn: asyncio.Handle | None = None
        self._told: Mapping[str, Reading] = source.snapshot.readings
        self._dirty = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: list[Callable[[], None]] = []

    def start(self) -> None:
        self._unsubscribe = [self._source.subscribe(self._changed), self._source.events.subscribe(self._happened)]
        self._task = asyncio.get_running_loop().create_task(self._serve_pages())

    def end_streams(self) -> None:
        """Let every reader go: the program is stopping."""
        for streams in self._streams.values():
            for stream in tuple(streams):
                stream.end()

    async def stop(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe = []
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
        return sum(map(len, self._streams.values()))

    @property
    def is_full(self) -> bool:
        return self.streams >= MAX_STREAMS

    async def open(self, abort: Callable[[], None], wants: Wants) -> tuple[Stream, bytes]:
        """A stream and its first event, the whole status: what changes after it is in the stream already. There is no
        such event for who wants to know what happens alone."""
        stream = Stream(abort, FOLLOWER_KEEP_ALIVE if wants == "changes" else PAGE_KEEP_ALIVE)
        self._streams[wants].add(stream)
        if wants == "log":
            return stream, b""
        self._dirty.set()
        try:
            return stream, encode_event("status", await self._status.get())
        except BaseException:
            self.close(stream)
            raise

    def close(self, stream: Stream) -> None:
        stream.end()
        for streams in self._streams.values():
            streams.discard(stream)

    def _changed(self) -> None:
        self._dirty.set()
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._tell_followers)

    def _happened(self, event: Event) -> None:
        if self._streams["page"] or self._streams["log"]:
            told = encode_event("log", to_json(event.document()))
            self._push("page", told)
            self._push("log", told)

    def _tell_followers(self) -> None:
        self._turn = None
        before, self._told = self._told, self._source.snapshot.readings
        reloaded = self._source.farm is not self._changes.farm
        if reloaded:
            self._changes = Changes(self._source.farm)
        followers = self._streams["changes"]
        if not followers or reloaded:
            self._untold.clear()
        if not followers:
            return
        if reloaded:
            self._push("changes", encode_event("status", status_json(situation(self._source))))
            return
        if before is not self._told:
            self._untold.update(dict.fromkeys(changed_members(before, self._told)))
        some = list(itertools.islice(self._untold, AT_ONCE))
        for name in some:
            del self._untold[name]
        document = self._changes.build(some, self._told, time.monotonic())
        if document["pools"]:
            self._push("changes", encode_event("changes", to_json(document)))
        if self._untold:
            self._turn = asyncio.get_running_loop().call_later(BREATH, self._tell_followers)

    def _push(self, wants: Wants, event: bytes) -> None:
        for stream in tuple(self._streams[wants]):
            stream.push(event)

    async def _serve_pages(self) -> None:
        pages = self._streams["page"]
        before: object = None
        next_change = math.inf
        while True:
            reported = await self._wait(min(TICK, max(0.0, next_change - time.monotonic())) if pages else None)
            if not pages:
                continue
            spent = self._gate.spent
            try:
                found = await self._gate.work(_outlooks(self._source))
                signature, next_change = [part for part, _ in found], min((at for _, at in found), default=math.inf)
                if not reported and signature == before:
                    continue
                before = signature
                event = encode_event("status", await self._status.get())
            except Exception:
                log.exception("the status could not be told")
                await asyncio.sleep(TICK)
                continue
            for stream in tuple(pages):
                stream.replace(event)
            await asyncio.sleep(min(max(PAGE_GAP, SHARE * (self._gate.spent - spent)), MAX_GAP))
            while pages and all(stream.is_behind for stream in pages):  # noqa: ASYNC110  an event of each would cost more
                await asyncio.sleep(PAGE_GAP)

    async def _wait(self, longest: float | None) -> bool:
        """Until something changed (True), or it is time to look whether something did by itself."""
        try:
            await asyncio.wait_for(self._dirty.wait(), longest)
        except TimeoutError:
            return False
        self._dirty.clear()
        return True


def _outlooks(source: StatusSource) -> Iterator[tuple[object, float]]:
    """Of each pool."""
    now: Situation = situation(source)
    for pool in now.farm.pools:
        yield outlook(replace(now, farm=replace(now.farm, pools=(pool,))))
