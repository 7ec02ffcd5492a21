"""The event hub: turns status changes into events, builds each event once, and sends it to all streams.

Each stream has a queue for events that its client has not read yet. The hub disconnects clients that read too slowly.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, Literal

from lbdns.events.event_log import LoggedEvent
from lbdns.events.server_sent_events import encode_event
from lbdns.model.snapshot import changed_members
from lbdns.process.background_tasks import end_task
from lbdns.process.duty_cycle import DutyCycle
from lbdns_collector.status.status_document import (
    FOLLOWER_KEEP_ALIVE,
    NO_CHANGES,
    PAGE_KEEP_ALIVE,
    ReportChanges,
    StatusInputs,
    change_signature,
    overrides_document,
    status_json,
    to_json,
)
from lbdns_collector.status.status_source import StatusSource, status_inputs
from lbdns_collector.web.render_scheduler import RenderScheduler
from lbdns_collector.web.single_flight import SingleFlight

log = logging.getLogger("lbdns.web")

#: The content of a stream: status and log, the log alone, or changes made by reports
StreamKind = Literal["page", "log", "changes"]
_LOG_STREAMS: Final[tuple[StreamKind, ...]] = ("page", "log")

PAGE_GAP: Final = 0.1  # seconds between two whole documents: viewers cannot read faster
#: Whole documents for pages take at most about a tenth of a core
PAGES: Final = DutyCycle(10.0, shortest=PAGE_GAP, longest=1.0)
#: Members in one event for followers, written by Python or by the native extension: about 2 ms of work before other
#: tasks run
AT_ONCE: Final = 100
NATIVE_AT_ONCE: Final = 500
BREATH: Final = 0.005  # seconds between two such events: if CPU time is scarce, reports take precedence
TICK: Final = 1.0  # seconds between checks for changes without a report, such as silent members and answer counts
MAX_STREAMS: Final = 100  # concurrent streams; each open page uses one
RESERVED_STREAMS: Final = 20  # of these for followers, whose DNS answers depend on the stream
MAX_WAITING: Final = 64  # events queued for one client, enough for some seconds
MAX_WAITING_BYTES: Final = 16 * 2**20  # the streams share the events, so these bytes exist only once
LOG_AT_ONCE: Final = 100  # log events encoded in one turn, about 2 ms of work
MAX_LOG_WAITING: Final = 100_000  # log events waiting to be encoded, if all members of a large farm change at once
MAX_JOINED: Final = 64 * 1024  # bytes; a longer event is returned as it is, without a copy


class StreamQueue:
    """A queue of events for one client. ``abort`` closes the client's connection."""

    def __init__(self, abort: Callable[[], None], keep_alive: float) -> None:
        self.keep_alive = keep_alive  # seconds
        self._abort = abort
        self._events: deque[bytes] = deque()
        self._bytes = 0
        self._whole = b""
        self._wake = asyncio.Event()
        self.ended = False

    def push(self, event: bytes) -> None:
        """Queue an event. If the queue becomes too long, the client is disconnected.

        When the client reconnects, it receives the whole status.
        """
        if self.ended:
            return
        full = len(self._events) >= MAX_WAITING or self._bytes + len(event) > MAX_WAITING_BYTES
        if self._events and full:
            self.abort()
            return
        self._events.append(event)
        self._bytes += len(event)
        self._wake.set()

    def replace(self, event: bytes) -> None:
        """Queue an event with the whole status.

        If an older event with the whole status is still queued, the new event replaces it.
        """
        if not self.ended:
            self._whole = event
            self._wake.set()

    @property
    def is_behind(self) -> bool:
        """True if an event with the whole status is still queued."""
        return bool(self._whole)

    def abort(self) -> None:
        """End the stream, and close the client's connection."""
        self.end()
        self._abort()

    def end(self) -> None:
        """End the stream, and drop all queued events."""
        self.ended = True
        self._clear()
        self._wake.set()

    async def next(self) -> bytes | None:
        """Return the next queued events, concatenated, or None at the end of the stream.

        Returns ``b""`` if no event has arrived for ``keep_alive`` seconds.
        """
        if not self._events and not self._whole and not self.ended:
            try:
                await asyncio.wait_for(self._wake.wait(), self.keep_alive)
            except TimeoutError:
                return b""
        if self.ended:
            return None
        due: list[bytes] = []
        length = 0
        while self._events and (not due or length + len(self._events[0]) <= MAX_JOINED):
            due.append(self._events.popleft())
            length += len(due[-1])
        self._bytes -= length
        if not due:  # not joined with others: all streams share one event with the whole status
            due, self._whole = [self._whole], b""
        if not self._events and not self._whole:
            self._wake.clear()
        return b"".join(due)

    def _clear(self) -> None:
        self._events.clear()
        self._bytes = 0
        self._whole = b""


class EventHub:
    """A hub that feeds all streams.

    When the status changes, pages receive the whole status, and followers receive the changed members.

    After a new snapshot, followers receive an event in the next iteration of the event loop. Each event contains a
    limited number of members, so that the program can read reports and answer queries between events. Documents for
    pages are built in scheduled slices.

    """

    def __init__(self, source: StatusSource, scheduler: RenderScheduler, status: SingleFlight[bytes]) -> None:
        self._source, self._scheduler, self._status = source, scheduler, status
        self._streams: dict[StreamKind, set[StreamQueue]] = {"page": set(), "log": set(), "changes": set()}
        self._encoded = b"", b""  # the newest document with the whole status, and its event
        self._changes = ReportChanges(source.members.farm)
        self._pending: dict[str, None] = {}  # changed members that no event has named yet, oldest first
        self._turn: asyncio.Handle | None = None
        self._log_waiting: deque[LoggedEvent] = deque()
        self._log_turn: asyncio.Handle | None = None
        self._sent = source.members.snapshot
        self._sent_overrides: object = source.members.overrides
        self._dirty = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: list[Callable[[], None]] = []

    def start(self) -> None:
        self._unsubscribe = [
            self._source.members.subscribe(self._changed),
            self._source.program.events.subscribe(self._push_event),
        ]
        self._task = asyncio.get_running_loop().create_task(self._serve_pages())

    def end_streams(self) -> None:
        """End every stream, because the program is stopping."""
        for streams in self._streams.values():
            for stream in tuple(streams):
                stream.end()

    async def stop(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe = []
        self.end_streams()
        for turn in (self._turn, self._log_turn):
            if turn is not None:
                turn.cancel()
        await end_task(self._task)

    @property
    def streams(self) -> int:
        return sum(map(len, self._streams.values()))

    def has_room(self, kind: StreamKind) -> bool:
        """Return whether another stream may be opened."""
        return self.streams < MAX_STREAMS - (0 if kind == "changes" else RESERVED_STREAMS)

    async def open(self, abort: Callable[[], None], kind: StreamKind) -> tuple[StreamQueue, bytes]:
        """Return two values: a new stream, and a first event with the whole status. Later changes are queued in the new
        stream.

        If ``kind`` is "log", the first event is empty.
        """
        stream = StreamQueue(abort, FOLLOWER_KEEP_ALIVE if kind == "changes" else PAGE_KEEP_ALIVE)
        self._streams[kind].add(stream)
        if kind == "log":
            return stream, b""
        self._dirty.set()
        try:
            return stream, await self._whole_status()
        except BaseException:
            self.close(stream)
            raise

    def close(self, stream: StreamQueue) -> None:
        stream.end()
        for streams in self._streams.values():
            streams.discard(stream)

    def _changed(self) -> None:
        self._dirty.set()
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._push_changes)

    def _push_event(self, event: LoggedEvent) -> None:
        if not any(self._streams[kind] for kind in _LOG_STREAMS):
            return
        if len(self._log_waiting) >= MAX_LOG_WAITING:
            self._abort_logs()
            return
        self._log_waiting.append(event)
        if self._log_turn is None:
            self._log_turn = asyncio.get_running_loop().call_soon(self._push_log)

    def _push_log(self) -> None:
        """Send the next waiting log events in one piece, so that clients that read at normal speed stay connected."""
        some = [self._log_waiting.popleft() for _ in range(min(len(self._log_waiting), LOG_AT_ONCE))]
        if some:
            message = b"".join(encode_event("log", to_json(event.document())) for event in some)
            for kind in _LOG_STREAMS:
                self._push(kind, message)
        left = bool(self._log_waiting)
        self._log_turn = asyncio.get_running_loop().call_later(BREATH, self._push_log) if left else None

    def _abort_logs(self) -> None:
        """Disconnect all clients that receive log events, so that they notice that events have been dropped.

        Clients may reconnect.
        """
        self._log_waiting.clear()
        for kind in _LOG_STREAMS:
            for stream in tuple(self._streams[kind]):
                stream.abort()

    def _push_changes(self) -> None:
        self._turn = None
        before, self._sent = self._sent, self._source.members.snapshot
        reloaded = self._source.members.farm is not self._changes.farm
        if reloaded:
            self._changes = ReportChanges(self._source.members.farm)
        overrides = self._source.members.overrides
        overridden, self._sent_overrides = overrides is not self._sent_overrides, overrides
        followers = self._streams["changes"]
        if not followers or reloaded:
            self._pending.clear()
        if not followers:
            return
        if reloaded:
            self._push("changes", encode_event("status", status_json(status_inputs(self._source))))
            return
        if overridden:
            self._push("changes", encode_event("overrides", to_json(overrides_document(overrides))))
        if before is not self._sent:
            self._pending.update(dict.fromkeys(changed_members(before, self._sent)))
        most = NATIVE_AT_ONCE if self._changes.is_native else AT_ONCE
        some = list(itertools.islice(self._pending, most))
        for name in some:
            del self._pending[name]
        document = self._changes.encode(some, self._sent.readings, time.monotonic())
        if document != NO_CHANGES:
            self._push("changes", encode_event("changes", document))
        if self._pending:
            self._turn = asyncio.get_running_loop().call_later(BREATH, self._push_changes)

    def _push(self, kind: StreamKind, event: bytes) -> None:
        for stream in tuple(self._streams[kind]):
            stream.push(event)

    async def _serve_pages(self) -> None:
        pages = self._streams["page"]
        before: object = None
        next_change = math.inf
        while True:
            reported = await self._wait(min(TICK, max(0.0, next_change - time.monotonic())) if pages else None)
            if not pages:
                continue
            spent = self._scheduler.spent
            try:
                found = await self._scheduler.work(_outlooks(self._source))
                signature, next_change = [part for part, _ in found], min((at for _, at in found), default=math.inf)
                if not reported and signature == before:
                    continue
                before = signature
                event = await self._whole_status()
            except Exception:
                log.exception("the status could not be sent to the clients of the live page")
                await asyncio.sleep(TICK)
                continue
            for stream in tuple(pages):
                stream.replace(event)
            await asyncio.sleep(PAGES.pause_after(self._scheduler.spent - spent))
            while pages and all(stream.is_behind for stream in pages):  # noqa: ASYNC110  an event of each would cost more
                await asyncio.sleep(PAGE_GAP)

    async def _whole_status(self) -> bytes:
        """Return an event with the whole status. Streams waiting at the same time share one event object."""
        document = await self._status.get()
        if document is not self._encoded[0]:
            self._encoded = document, encode_event("status", document)
        return self._encoded[1]

    async def _wait(self, longest: float | None) -> bool:
        try:
            await asyncio.wait_for(self._dirty.wait(), longest)
        except TimeoutError:
            return False
        self._dirty.clear()
        return True


def _outlooks(source: StatusSource) -> Iterator[tuple[object, float]]:
    now: StatusInputs = status_inputs(source)
    for pool in now.farm.pools:
        yield change_signature(replace(now, farm=replace(now.farm, pools=(pool,))))
