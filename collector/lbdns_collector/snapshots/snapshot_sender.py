"""Publishes the changes of a collector's snapshot on a bus, and answers requests for the whole snapshot."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lbdns.bus.bus_connection import BusConnection, BusError, BusSubscription
from lbdns.bus.signed_message import MessageKeys, RefusedMessageError
from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.farm import Farm
from lbdns.model.snapshot import EMPTY_SNAPSHOT, changed_members
from lbdns.process.apply_configuration import PreparedChange
from lbdns.process.background_tasks import end_tasks
from lbdns_collector.reports.collector import Collector
from lbdns_collector.snapshots.snapshot_messages import (
    CHANGES,
    MAX_SKEW,
    NO_RANK,
    PURPOSE,
    REQUESTS,
    ReportRank,
    SnapshotMessage,
    SnapshotRequest,
    read_request,
)
from lbdns_collector.status.status_source import MemberSource
from lbdns_shared.keys import MasterKey

if TYPE_CHECKING:
    from nats.aio.msg import Msg

log = logging.getLogger("lbdns.bus")

AT_ONCE: Final = 100  # members or records in one message, at most about 250 kB; NATS servers accept 1 MB
BREATH: Final = 0.005  # seconds between two messages: if CPU time is scarce, reports take precedence
ALIVE: Final = 1.0  # seconds without a change after which an empty message shows that this collector is alive
MAX_REQUESTS: Final = 100  # that wait; each takes the time of a whole snapshot
MAX_NONCES: Final = 10_000  # of requests that are remembered; a replay costs time, but does no other harm


def _do_nothing() -> None:
    pass


class SnapshotSender:
    """The part of a program that shares the readings of its collector. Without ``[bus]``, it does nothing."""

    def __init__(
        self, bus: BusConnection, members: MemberSource, collector: Collector, keys: Iterable[MasterKey]
    ) -> None:
        self._bus, self._members, self._collector = bus, members, collector
        self._keys = MessageKeys(tuple(keys), PURPOSE)
        self._name, self._boot, self._seq = socket.gethostname(), secrets.randbits(63), 0
        #: "published": messages; "answered": requests; malformed, bad_tag, clock, replay: refused requests
        self.counts: Counter[str] = Counter()
        self._sent = EMPTY_SNAPSHOT
        self._sent_overrides: object = None
        self._sent_joined: object = None
        self._pending: dict[str, None] = {}  # changed members that no message has contained yet, oldest first
        self._wake, self._asked = asyncio.Event(), asyncio.Event()
        self._requests: dict[str, SnapshotRequest] = {}  # by receiver
        self._nonces: dict[bytes, None] = {}
        self._hosts: tuple[Farm | None, Mapping[str, Sequence[str]]] = (None, {})
        self._tasks: list[asyncio.Task[None]] = []
        self._subscription: BusSubscription | None = None
        self._unsubscribe: Callable[[], None] = _do_nothing

    def start(self) -> None:
        self._unsubscribe = self._members.subscribe(self._notice)
        self._subscription = self._bus.subscribe(REQUESTS, self._receive)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._publish_forever()), loop.create_task(self._answer_forever())]

    async def stop(self) -> None:
        self._unsubscribe()
        self._unsubscribe = _do_nothing
        if self._subscription:
            self._subscription.end()
        await end_tasks(self._tasks)
        self._tasks = []

    async def prepare(self, new: CheckedConfiguration) -> PreparedChange:
        def commit() -> None:
            self._keys = MessageKeys(new.keys, PURPOSE)
            self._wake.set()

        return PreparedChange("snapshots on the bus", commit=commit)

    def _notice(self) -> None:
        if self._bus.is_configured:
            self._wake.set()
        else:
            self._sent = EMPTY_SNAPSHOT  # of a bus that is configured later, all receivers are new

    async def _publish_forever(self) -> None:
        while True:
            try:
                async with asyncio.timeout(ALIVE):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            if self._bus.is_configured:
                try:
                    await self._publish_changes()
                except Exception:
                    log.exception("bus: the changes cannot be published")

    async def _publish_changes(self) -> None:
        """Publish what has changed since the last call, or an empty message if nothing has."""
        before, self._sent = self._sent, self._members.snapshot
        self._pending.update(dict.fromkeys(changed_members(before, self._sent)))
        overrides, joined = self._members.overrides, self._collector.joins.joined
        more: dict[str, Any] = {}
        if overrides is not self._sent_overrides:
            self._sent_overrides, more["overrides"] = overrides, overrides.items
        if joined is not self._sent_joined:
            self._sent_joined, more["joined"] = joined, joined.items
        while True:
            some = list(itertools.islice(self._pending, AT_ONCE))
            for name in some:
                del self._pending[name]
            self._seq += 1  # even if the message cannot be published: the receivers then notice that one was lost
            await self._publish(CHANGES, self._message(some, **more))
            more = {}
            if not self._pending:
                return
            await asyncio.sleep(BREATH)

    async def _publish(self, subject: str, message: SnapshotMessage) -> bool:
        if self._bus.client is None:
            return False
        try:
            await self._bus.publish(subject, self._keys.seal(message.body(time.monotonic())))
        except BusError as error:
            log.warning("bus: a message with subject %s cannot be published: %s", subject, error)
            return False
        self.counts["published"] += 1
        return True

    def _message(self, members: Iterable[str], **more: Any) -> SnapshotMessage:
        table, hosts = self._collector.table, self._host_names()
        found = {}
        for name in members:
            if reading := table.reading(name):
                reports = [report for host in hosts.get(name, ()) if (report := table.newest_report(host))]
                newest = max(reports, key=lambda report: report.received, default=None)
                found[name] = reading, ReportRank(*newest[:3]) if newest else NO_RANK
        return SnapshotMessage(self._name, self._boot, self._seq, time.time(), found, **more)

    def _host_names(self) -> Mapping[str, Sequence[str]]:
        """Return, by full name of the member, the names under which its host may report."""
        farm = self._collector.farm
        if self._hosts[0] is not farm:
            found: dict[str, list[str]] = {}
            for name, host in farm.hosts.items():
                for member in host.members:
                    found.setdefault(member, []).append(name)
            self._hosts = farm, found
        return self._hosts[1]

    async def _receive(self, message: Msg) -> None:
        """Queue a request. A newer one of the same receiver replaces it."""
        try:
            request = read_request(self._keys.open(message.data))
        except RefusedMessageError as error:
            self.counts[error.reason] += 1
            return
        except ValueError:
            self.counts["malformed"] += 1
            return
        if abs(request.time - time.time()) > MAX_SKEW:
            self.counts["clock"] += 1
        elif request.nonce in self._nonces:
            self.counts["replay"] += 1
        elif request.boot in (None, self._boot):
            self._nonces[request.nonce] = None
            if len(self._nonces) > MAX_NONCES:
                del self._nonces[next(iter(self._nonces))]
            if request.receiver in self._requests or len(self._requests) < MAX_REQUESTS:
                self._requests[request.receiver] = request
                self._asked.set()

    async def _answer_forever(self) -> None:
        while True:
            await self._asked.wait()
            if not self._requests:
                self._asked.clear()
                continue
            receiver = next(iter(self._requests))
            request = self._requests.pop(receiver)
            try:
                await self._answer(request)
            except Exception:
                log.exception("bus: a request for the snapshot cannot be answered")

    async def _answer(self, request: SnapshotRequest) -> None:
        """Publish the parts of the whole snapshot. If one cannot be published, the receiver asks again."""
        contents = list(self._contents())
        for index, content in enumerate(contents):
            part = self._message(**content, nonce=request.nonce, index=index, is_last=index == len(contents) - 1)
            if not await self._publish(request.reply_subject, part):
                return
            await asyncio.sleep(BREATH)
        self.counts["answered"] += 1

    def _contents(self) -> Iterator[dict[str, Any]]:
        """Yield the contents of each part. The members' readings are looked up when the part is made."""
        yield {"members": (), "overrides": self._members.overrides.items, "joined": self._collector.joins.joined.items}
        table = self._collector.table
        members = list(table.members())
        for start in range(0, len(members), AT_ONCE):
            yield {"members": members[start : start + AT_ONCE]}
        records = list(table.records(time.time()).items())
        for start in range(0, len(records), AT_ONCE):
            yield {"members": (), "records": dict(records[start : start + AT_ONCE])}
