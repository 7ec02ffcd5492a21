"""Report sockets: UDP sockets that receive reports, pass them to the report table, and log dropped datagrams."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Mapping
from typing import Final

from lbdns.events.event_log import EventKind, EventLog
from lbdns.sockets.binding import bind, bound_endpoint, enlarge, overflows
from lbdns_collector.reports.rejected_reports import ADVICE
from lbdns_collector.reports.report_batch import ReportBatch
from lbdns_collector.reports.report_table import ACCEPTED, DUPLICATE, ReportTable
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.report import MAX_DATAGRAM

#: The kind of event for each reason to drop a datagram; the kind is "reports" for other reasons
_KINDS: Final[Mapping[str, EventKind]] = {"bad_tag": "key", "clock": "clock"}
BATCH: Final = 64  # datagrams per wake-up, about a millisecond of work, so that other tasks in this event loop can run
LAST_BATCHES: Final = 256  # batches to process before a socket is closed: more than a full receive buffer
RECEIVE_BUFFER: Final = 4 * 2**20  # bytes requested from the kernel; room for ten thousand reports at one moment
LOG_INTERVAL: Final = 60.0  # seconds, per reason: garbage from the network must not fill a disk


class RejectionLog:
    """A filter that limits log lines about dropped datagrams to one line per minute for each reason."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}
        self._since: dict[str, int] = {}

    def note(self, reason: str, source: str, now: float) -> str | None:
        """Count a datagram from ``source`` that was dropped at ``now`` (monotonic seconds).

        Return the line to log, or None if a line with the same reason was logged within the last minute.
        """
        count = self._since[reason] = self._since.get(reason, 0) + 1
        logged_at = self._logged_at.get(reason)
        if logged_at is not None and now - logged_at < LOG_INTERVAL:
            return None
        self._logged_at[reason], self._since[reason] = now, 0
        more = f" ({count} since the last log line)" if count > 1 else ""
        return f"report from {source} dropped: {reason}{more}; {ADVICE[reason]}"


def record_rejection(events: EventLog, reason: str, line: str) -> None:
    """Record a line from ``RejectionLog`` in the event log."""
    events.record(_KINDS.get(reason, "reports"), line, level=logging.WARNING, logger="lbdns.collector")


class ReportSocket:
    """A bound UDP socket that receives reports.

    After ``attach`` is called, the socket passes received datagrams to the report table.
    """

    def __init__(self, endpoint: Endpoint, share: bool = False, inherited: socket.socket | None = None) -> None:
        """Bind a socket to ``endpoint``, or use ``inherited``, a socket that is already bound to it.

        If ``share`` is true, the address may overlap with that of another socket in this process that allows sharing.
        Raises ListenError.
        """
        self.configured = endpoint
        self.reads = 0  # wake-ups
        self._socket = inherited or bind(endpoint, socket.SOCK_DGRAM, "reports", "[collector] listen", share)
        enlarge(self._socket, RECEIVE_BUFFER)
        self.address = bound_endpoint(self._socket)
        self._table: ReportTable | None = None
        self._on_change: Callable[[], None] | None = None
        self._rejections = RejectionLog()
        self._events: EventLog | None = None
        self._batch: ReportBatch | None = None  # None: datagrams are read one at a time

    def attach(
        self, table: ReportTable, on_change: Callable[[], None], loop: asyncio.AbstractEventLoop, events: EventLog
    ) -> None:
        """Start passing received datagrams to ``table``.

        The method calls ``on_change`` after each batch of datagrams that contains an accepted report. Dropped datagrams
        are recorded in ``events`` at a limited rate.
        """
        self._table, self._on_change, self._rejections, self._events = table, on_change, RejectionLog(), events
        self._batch = table.reader.batch()
        self.resume(loop)

    def __str__(self) -> str:
        return f"{self.address} (reports)"

    def fileno(self) -> int:
        return self._socket.fileno()

    def pause(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop reading. Until ``resume`` is called, new datagrams wait in the socket."""
        loop.remove_reader(self._socket)

    def resume(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.add_reader(self._socket, self.drain)

    def duplicate(self) -> socket.socket:
        """Return a duplicate of the socket for another process."""
        return self._socket.dup()

    def drain(self) -> bool:
        """Read up to one batch of waiting datagrams. Return whether more datagrams may be waiting."""
        table = self._table
        if table is None:
            return False
        self.reads += 1
        if self._batch is not None:
            return self._drain_batch(table, self._batch)
        receive, accept = self._socket.recvfrom, table.accept
        now, wall = time.monotonic(), time.time()
        changed, left = False, BATCH
        while left:
            left -= 1
            try:
                # One byte more than the limit shows whether a datagram is too long
                datagram, source = receive(MAX_DATAGRAM + 1)
            except BlockingIOError:
                break
            except OSError:
                continue  # an ICMP error that a client provoked; the socket still works
            result = accept(datagram, source[0], now, wall)
            if result is ACCEPTED:
                changed = True
            elif result is not DUPLICATE:
                self._log_rejection(result, source[0], now)
        if changed and self._on_change:
            self._on_change()
        return left == 0

    def _drain_batch(self, table: ReportTable, batch: ReportBatch) -> bool:
        """Read one batch with one system call."""
        try:
            count = batch.receive(self._socket.fileno())
        except OSError:
            return True  # an ICMP error that a client provoked; the socket still works
        # Read after the datagrams have arrived, so that no report seems to come from the future
        now, wall = time.monotonic(), time.time()
        at, before = 0, table.counts[ACCEPTED]
        while (at := table.accept_batch(batch, at, now, wall)) < count:
            source = batch.source(at)
            result = table.accept(batch.datagram(at), source, now, wall)
            if result is not ACCEPTED and result is not DUPLICATE:
                self._log_rejection(result, source, now)
            at += 1
        if self._on_change and table.counts[ACCEPTED] != before:
            self._on_change()
        return count == BATCH

    def _log_rejection(self, reason: str, source: str, now: float) -> None:
        if (line := self._rejections.note(reason, source, now)) and self._events:
            record_rejection(self._events, reason, line)

    @property
    def overflows(self) -> int:
        """The number of datagrams that the kernel dropped because the receive buffer was full."""
        return overflows(self._socket)

    def allow_sharing(self, allowed: bool) -> None:
        """Set whether this socket's replacement may bind an overlapping address while this socket is still open."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(allowed))

    def close(self, loop: asyncio.AbstractEventLoop, leave: bool = False) -> None:
        """Process the datagrams that have arrived, up to the size of the receive buffer, and close the socket.

        If ``leave`` is true, leave the datagrams to another process that also has this socket open.
        """
        loop.remove_reader(self._socket)
        for _ in range(0 if leave else LAST_BATCHES):
            if not self.drain():
                break
        self._socket.close()
