"""Shares overrides with other servers over a bus: signs and stores this server's orders, and receives everybody's."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from lbdns.bus.bus_bucket import NOT_READ, BucketChangedError, BucketRecord, BusBucket
from lbdns.bus.bus_connection import BusConnection, BusError
from lbdns.bus.signed_message import MessageKeys, RefusedMessageError
from lbdns.events.event_log import EventLog
from lbdns.model.overrides import Override
from lbdns.model.shared_orders import Place, SharedOrder, SharedOrders, bucket_key, read_order
from lbdns.process.background_tasks import end_task
from lbdns.text.times import format_time
from lbdns_shared.keys import MasterKey

log = logging.getLogger("lbdns.orders")

BUCKET: Final = "lbdns_overrides"
PURPOSE: Final = "shared override"
RESULTS: Final = ("accepted", "stored", "lost", "replay", "bad_tag", "malformed", "deleted")
PATIENCE: Final = 2.0  # seconds that a command waits until its orders are stored
RETRY: Final = 0.5  # seconds between two attempts to store an order; the actual pause is random
REPAIR: Final = (1.0, 3.0)  # seconds, at random, until an order is stored again over a record that is not valid


def _do_nothing(_: Sequence[SharedOrder]) -> None:
    pass


class OverrideSharing:
    """The newest orders of all servers. It does nothing until ``start`` is called."""

    def __init__(
        self, bus: BusConnection, keys: Sequence[MasterKey], events: EventLog, clock: Callable[[], float] = time.time
    ) -> None:
        """``keys`` sign the orders. ``clock`` returns the Unix time in seconds."""
        self.orders = SharedOrders()
        #: Called when ``orders`` has changed, with this server's orders that do not count, because a newer one exists
        self.on_orders: Callable[[Sequence[SharedOrder]], None] = _do_nothing
        self.is_on = False
        self.server = socket.gethostname()
        self.counts = Counter(dict.fromkeys(RESULTS, 0))  # records by result
        self.cut_off_since = 0.0  # Unix seconds; 0 while this server is not cut off
        self._keys, self._masters = MessageKeys(keys, PURPOSE), tuple(keys)
        self._events, self._clock = events, clock
        self._bucket = BusBucket(bus, BUCKET)
        self._bucket.on_read, self._bucket.on_record = self._read, self._receive
        self._bucket.on_change = self._bucket_changed
        self._refusal = ""  # why the newest order could not be stored
        self._recorded = ""  # the problem in the newest event
        self._sent: dict[Place, SharedOrder] = {}  # which may have been stored
        self._changed = asyncio.Event()  # set whenever ``orders`` or the state has changed
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def problem(self) -> str:
        """Return why this server is cut off from the others, or an empty string if it is not."""
        return self._bucket.problem or self._refusal

    def start(self, copies: int = 1) -> None:
        """Follow the bucket, and store pending orders in it.

        ``copies`` is the number of servers of the bus that store the bucket, if it must be created.
        """
        self._bucket.copies = copies
        if not self.is_on:
            self.is_on, self.cut_off_since = True, self._clock()
            self._recorded = self._refusal = ""
            self._task = asyncio.get_running_loop().create_task(self._store_all())
            self._bucket.start()

    async def stop(self) -> None:
        """Leave the bucket. The orders remain known."""
        task, self._task, self.is_on = self._task, None, False
        await end_task(task)
        await self._bucket.stop()

    def use_keys(self, keys: Sequence[MasterKey]) -> None:
        """Sign with these keys. Orders in the bucket that they have not signed are stored again."""
        if tuple(keys) != self._masters:
            self._keys, self._masters = MessageKeys(keys, PURPOSE), tuple(keys)
            self._bucket.read_again()

    def adopt(self, orders: SharedOrders, own: Iterable[Override]) -> None:
        """Begin with ``orders``. The overrides in ``own`` become orders, except those for whose place there is one."""
        self.orders = orders
        for override in own:
            if override.place not in orders.orders:
                self._give(override.place, override, override.by)

    def give(self, before: Iterable[Override], after: Iterable[Override], by: str) -> None:
        """Turn a change of this server's overrides into orders of the user ``by``."""
        before, after = set(before), tuple(after)
        for override in after:
            if override not in before:
                self._give(override.place, override, by)
        for place in {each.place for each in before}.difference(each.place for each in after):
            self._give(place, None, by)
        self._wake.set()

    async def settle(self, members: Sequence[str]) -> str:
        """Wait up to PATIENCE seconds until all orders for ``members`` (full names) are stored, unless this server is
        cut off. Return a note for the user if they are not, or an empty string."""
        deadline = time.monotonic() + PATIENCE
        while self._has_pending(members):
            if self.problem:
                return self.cut_off_note(
                    "the order counts here only; when the bus is back, it counts everywhere, unless a newer one exists"
                )
            left = deadline - time.monotonic()
            if left <= 0:
                return "the other servers may not know the order yet, because the bus is slow"
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return ""

    def cut_off_note(self, then: str) -> str:
        """Return a sentence about the missing connection, or an empty string if this server is not cut off."""
        if not self.problem:
            return ""
        return f"cut off from the other servers since {format_time(self.cut_off_since)} ({self.problem}); {then}"

    def document(self) -> dict[str, Any]:
        """Return the state for status documents."""
        return {
            "connected": not self.problem,
            "server": self.server,
            "cut_off_since": round(self.cut_off_since, 3) or None,
            "problem": self.problem,
            "orders": len(self.orders.orders),
            "pending": len(self.orders.pending),
            "counts": dict(self.counts),
        }

    def _give(self, place: Place, override: Override | None, by: str) -> None:
        named = override and replace(override, server=self.server)
        self.orders = self.orders.give(place, named, by, self.server)

    def _has_pending(self, members: Sequence[str]) -> bool:
        return any(order.place[1] in members for order in self.orders.pending)

    def _read(self, records: Sequence[BucketRecord]) -> None:
        found = [order for record in records if (order := self._open(record))]
        for order in found:
            self._confirm(order)
        self._sent.clear()
        self.orders, lost = self.orders.reread(found)
        self._tell(lost)

    def _receive(self, record: BucketRecord) -> None:
        order = self._open(record)
        if order is None:
            asyncio.get_running_loop().call_later(random.uniform(*REPAIR), self._repair, record.key)
            return
        lost: SharedOrder | None = None
        if not self._confirm(order):
            self.orders, lost = self.orders.receive(order)
            known = self.orders.orders[order.place]
            if known.version > order.version and not known.is_pending and known.revision < order.revision:
                self._count("replay")
                self.orders = self.orders.missing(order.place)
        self._tell([lost] if lost else [])

    def _open(self, record: BucketRecord) -> SharedOrder | None:
        """Return the order in a record, or None if it is not valid. A deletion is not valid, because it is unsigned."""
        try:
            if not record.value:
                raise RefusedMessageError("deleted")
            order = read_order(self._keys.open(record.value), record.key, record.revision)
        except RefusedMessageError as error:
            self._count(error.reason)
        except ValueError as error:
            log.debug("bucket %s: %s: %s", BUCKET, record.key, error)
            self._count("malformed")
        else:
            self.counts["accepted"] += 1
            return order
        return None

    def _count(self, reason: str) -> None:
        self.counts[reason] += 1
        if self.counts[reason] == 1:
            what = f"a record in the bucket {BUCKET} is ignored ({reason}); all further ones are only counted"
            self._record(what, logging.WARNING)

    def _confirm(self, found: SharedOrder) -> bool:
        """If ``found`` is the order that was sent for its place, note that it is stored, and return True."""
        sent = self._sent.get(found.place)
        if sent is None or replace(found, revision=sent.revision) != sent:
            return False
        self._note_stored(sent, found.revision)
        return True

    def _note_stored(self, sent: SharedOrder, revision: int) -> None:
        self.orders = self.orders.stored(sent, revision)
        if self._sent.get(sent.place) == sent:
            del self._sent[sent.place]
            self.counts["stored"] += 1

    def _repair(self, key: str) -> None:
        """Store the order for ``key`` again if the bucket still contains something else."""
        known = next((order for order in self.orders.orders.values() if bucket_key(order.place) == key), None)
        if self.is_on and known and not known.is_pending and known.revision < self._bucket.revision(key):
            self.orders = self.orders.missing(known.place)
            self._tell([])

    def _tell(self, lost: Sequence[SharedOrder]) -> None:
        self.counts["lost"] += len(lost)
        self._changed.set()
        self._wake.set()
        self.on_orders(lost)

    async def _store_all(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for order in self.orders.pending:
                if self._bucket.problem:
                    break
                await self._store(order)
            if self.orders.pending and not self._bucket.problem and not self._wake.is_set():
                await asyncio.sleep(random.uniform(0.1, 1.0) * RETRY)
                self._wake.set()

    async def _store(self, order: SharedOrder) -> None:
        if self.orders.orders.get(order.place) != order:
            return  # another order has arrived meanwhile
        self._sent[order.place] = order
        try:
            revision = await self._bucket.put(bucket_key(order.place), self._keys.seal(order.body()))
        except BucketChangedError:
            self._refusal = ""  # the other record arrives soon
        except BusError as error:
            self._refusal = "" if self._bucket.problem else f"an order cannot be stored: {error}"
        else:
            self._refusal = ""
            self._note_stored(order, revision)
            self._tell([])
        self._note_state()

    def _bucket_changed(self) -> None:
        self._note_state()
        self._wake.set()

    def _note_state(self) -> None:
        """Record whether this server is cut off from the others, if this has changed."""
        problem = self.problem
        if not problem:
            if self.cut_off_since:
                self.cut_off_since = 0.0
                self._record(f"overrides are shared with the other servers (bucket {BUCKET})")
            self._recorded = ""
        else:
            self.cut_off_since = self.cut_off_since or self._clock()
            if problem not in (self._recorded, NOT_READ):
                self._recorded = problem
                what = "known overrides remain in force, and new ones count on this server only until the bus is back"
                self._record(f"cut off from the other servers: {problem}; {what}", logging.WARNING)
        self._changed.set()

    def _record(self, text: str, level: int = logging.INFO) -> None:
        self._events.record("override", text, level=level, logger=log.name)
