"""Follows a JetStream bucket on a bus: creates it if it is missing, reads it on each connection, and stores records.

A record is stored only if the bucket's newest record with the same key is the one that this program has seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lbdns.bus.bus_connection import BusConnection, BusError
from lbdns.bus.bus_error_text import error_text
from lbdns.bus.bus_state import BusState
from lbdns.process.background_tasks import end_task, end_tasks

if TYPE_CHECKING:
    from nats.js.kv import KeyValue

    from lbdns.bus.nats_client import NatsClient

LONGEST_REPLY: Final = 5.0  # seconds until JetStream has replied to a request
CHECK_PERIOD: Final = 5.0  # seconds without a record after which JetStream is asked whether it still sends records
LONGEST_PAUSE: Final = 1.0  # seconds between two attempts to read the bucket; the actual pause is random
LONGEST_END: Final = 1.0  # seconds for ending a subscription
FORGET_AFTER: Final = 30.0  # seconds after which JetStream forgets a program that has gone
NOT_READ: Final = "the bucket has not been read yet"


class BucketChangedError(BusError):
    """Raised if the bucket contains a record that this program has not seen. It arrives soon."""


@dataclass(frozen=True, slots=True)
class BucketRecord:
    """A record in a bucket. ``value`` is empty if the record has been deleted."""

    key: str
    value: bytes
    revision: int  # from 1; every change of the bucket has a higher one


class BusBucket:
    """A bucket on the bus of ``bus``. Use it in the event loop only.

    The callbacks are attributes, which the owner sets before ``start``.
    """

    def __init__(self, bus: BusConnection, name: str) -> None:
        #: Called with all records, after each connection
        self.on_read: Callable[[Sequence[BucketRecord]], None] = lambda _: None
        #: Called with each record that is stored afterwards, by this program or another one
        self.on_record: Callable[[BucketRecord], None] = lambda _: None
        #: Called when ``problem`` has changed
        self.on_change: Callable[[], None] = lambda: None
        #: The number of servers that store the bucket, if this program creates it
        self.copies = 1
        #: Why the bucket is not followed; empty while it is
        self.problem = NOT_READ
        self._bus, self._name = bus, name
        self._store: KeyValue | None = None  # while the bucket is followed
        self._revisions: dict[str, int] = {}  # by key, of the newest records
        self._task: asyncio.Task[None] | None = None
        self._following: asyncio.Future[None] | None = None
        self._wake = asyncio.Event()
        self._unwatch: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Follow the bucket until ``stop`` is called."""
        if self._task is None:
            self._unwatch = self._bus.watch(self._wake.set)
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            self._unwatch()
            await end_task(task)
            self.problem = NOT_READ

    def read_again(self) -> None:
        """Read the whole bucket again, as after a new connection."""
        if self._following is not None:
            self._following.cancel()

    def revision(self, key: str) -> int:
        """Return the revision of the newest known record under ``key``, or 0 if there is none."""
        return self._revisions.get(key, 0)

    async def put(self, key: str, value: bytes) -> int:
        """Store a record, and return its revision. ``on_record`` may be called with it before or afterwards.

        Raises BucketChangedError if another program has stored a record under this key meanwhile, and another BusError
        if JetStream refuses the record or does not reply; in that case, it may have stored the record.
        """
        from nats.js.errors import KeyWrongLastSequenceError

        store = self._store
        if store is None:
            raise BusError(self.problem)
        try:
            revision = await store.update(key, value, last=self.revision(key))
        except KeyWrongLastSequenceError:
            raise BucketChangedError("another record has been stored under this key") from None
        except Exception as error:  # the library raises many kinds
            raise BusError(self._text(error)) from None
        if self._store is store:  # otherwise, the bucket has been read again meanwhile
            self._revisions[key] = max(revision, self.revision(key))
        return revision

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            client = self._bus.client
            if client is None:
                if self._bus.is_configured and self._bus.state != BusState():  # otherwise, an attempt follows
                    self._note(self._bus.state.problem)
                await self._wake.wait()
                continue
            await self._follow_while_connected(client)
            if self.problem and client is self._bus.client:
                await asyncio.sleep(random.uniform(0.1, 1.0) * LONGEST_PAUSE)

    async def _follow_while_connected(self, client: NatsClient) -> None:
        following = self._following = asyncio.ensure_future(self._follow(client))
        over = asyncio.ensure_future(client.over.wait())
        try:
            await asyncio.wait({following, over}, return_when=asyncio.FIRST_COMPLETED)
            if following.cancelled():
                pass  # ``read_again`` was called
            elif following.done():
                self._note(self._text(following.exception() or BusError("JetStream no longer sends records")))
            else:
                self._note(self._bus.state.problem or client.reason("the connection was lost"))
        finally:
            self._following = None
            await end_tasks((following, over))

    async def _follow(self, client: NatsClient) -> None:
        """Read the bucket, and follow it until an error is raised."""
        store = await self._open(client)
        watcher = await store.watchall(inactive_threshold=FORGET_AFTER)
        try:
            found = {}
            while (entry := await _next(watcher, LONGEST_REPLY)) is not None:
                found[entry.key] = _record(entry)
            self._revisions = {record.key: record.revision for record in found.values()}
            self._store = store
            self.on_read(tuple(found.values()))
            self._note("")
            while True:
                await self._receive_one(watcher)
        finally:
            self._store = None
            with contextlib.suppress(Exception):
                async with asyncio.timeout(LONGEST_END):
                    await watcher.stop()  # type: ignore[no-untyped-call]

    async def _receive_one(self, watcher: KeyValue.KeyWatcher) -> None:
        try:
            entry = await _next(watcher, CHECK_PERIOD)
        except TimeoutError:
            # Servers of a cluster may forget the subscription while the connection is up, or lose the bucket
            assert watcher._sub is not None, "the watcher has started"
            await watcher._sub.consumer_info()
            return
        if entry is not None:
            record = _record(entry)
            self._revisions[record.key] = record.revision
            self.on_record(record)

    async def _open(self, client: NatsClient) -> KeyValue:
        from nats.js.errors import BucketNotFoundError

        stream = client.jetstream(timeout=LONGEST_REPLY)
        try:
            return await stream.key_value(self._name)
        except BucketNotFoundError:
            return await stream.create_key_value(bucket=self._name, replicas=self.copies)

    def _text(self, error: BaseException) -> str:
        """Return why JetStream does not do what is asked of it."""
        client = self._bus.client
        refused = client.refused.items() if client else ()
        refusals = [text for (_, subject), text in refused if subject.startswith(("$js.", "$kv."))]
        if refusals:  # JetStream then does not reply
            return refusals[-1]
        return f"JetStream: {getattr(error, 'description', '') or error_text(error)}"

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self.on_change()


async def _next(watcher: KeyValue.KeyWatcher, longest: float) -> KeyValue.Entry | None:
    """Return the next entry, or None after the last one that was in the bucket. Raises TimeoutError."""
    return await watcher.updates(longest)  # type: ignore[no-untyped-call, no-any-return]


def _record(entry: KeyValue.Entry) -> BucketRecord:
    assert entry.revision is not None, "entries from a watcher have a revision"
    return BucketRecord(entry.key, b"" if entry.operation else entry.value or b"", entry.revision)
