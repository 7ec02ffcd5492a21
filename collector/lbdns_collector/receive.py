"""Receiving reports: UDP sockets, drained at each wake-up of the event loop into the table."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Mapping
from typing import Final

from lbdns.endpoint import Endpoint
from lbdns.events import Events, Kind
from lbdns.listening import bind, bound_endpoint, enlarge, overflows
from lbdns.report import MAX_DATAGRAM
from lbdns_collector.rejections import Rejections
from lbdns_collector.table import ACCEPTED, Table

#: What kind of event it is when datagrams are dropped for a reason; "reports" for all others.
_KINDS: Final[Mapping[str, Kind]] = {"bad_tag": "key", "clock": "clock"}
BATCH: Final = 64  # datagrams a wake-up, about a millisecond: whatever else runs in this loop has its turn
RECEIVE_BUFFER: Final = 4 * 2**20  # bytes asked for: ten thousand reports that come in one moment


class ReportSocket:
    """One bound socket; once attached, what it receives goes to the table."""

    def __init__(self, endpoint: Endpoint, share: bool = False, given: socket.socket | None = None) -> None:
        """Bind ``endpoint``, unless a socket that is bound there is ``given``. ``share``: beside a socket of our own
        that allows it. Raises ListenError."""
        self.asked = endpoint
        self._socket = given or bind(endpoint, socket.SOCK_DGRAM, "reports", "[collector] listen", share)
        enlarge(self._socket, RECEIVE_BUFFER)
        self.address = bound_endpoint(self._socket)
        self._table: Table | None = None
        self._on_change: Callable[[], None] = _nothing
        self._rejections = Rejections()
        self._events: Events | None = None

    def attach(
        self, table: Table, on_change: Callable[[], None], loop: asyncio.AbstractEventLoop, events: Events
    ) -> None:
        """Feed ``table`` from now on; ``on_change`` is called after every batch with an accepted report in it, and
        ``events`` are told now and then what was dropped."""
        self._table, self._on_change, self._rejections, self._events = table, on_change, Rejections(), events
        self.resume(loop)

    def pause(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read nothing for now; what arrives waits."""
        loop.remove_reader(self._socket)

    def resume(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.add_reader(self._socket, self.drain)

    def duplicate(self) -> socket.socket:
        """The same socket, for another process."""
        return self._socket.dup()

    def drain(self) -> bool:
        """Take in what has arrived, at most a batch; whether there may be more."""
        table = self._table
        if table is None:
            return False
        receive, accept = self._socket.recvfrom, table.accept
        now, wall = time.monotonic(), time.time()
        changed, left = False, BATCH
        while left:
            left -= 1
            try:
                # One byte more than allowed, to tell a datagram that is too long from one that just fits
                datagram, source = receive(MAX_DATAGRAM + 1)
            except BlockingIOError:
                break
            except OSError:
                continue  # an ICMP error that somebody provoked: not about this socket
            result = accept(datagram, source[0], now, wall)
            if result is ACCEPTED:
                changed = True
            elif line := self._rejections.note(result, source[0], now):
                self._tell(result, line)
        if changed:
            self._on_change()
        return left == 0

    def _tell(self, reason: str, line: str) -> None:
        if self._events:
            kind = _KINDS.get(reason, "reports")
            self._events.tell(kind, line, level=logging.WARNING, logger="lbdns.collector")

    @property
    def overflows(self) -> int:
        """Datagrams the kernel dropped because the receive buffer was full."""
        return overflows(self._socket)

    def allow_sharing(self, allowed: bool) -> None:
        """Let a socket of ours with an overlapping address bind beside this one, while a reload replaces it."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(allowed))

    def close(self, loop: asyncio.AbstractEventLoop, leave: bool = False) -> None:
        """Take in what has arrived already, or ``leave`` it to another process that has this socket; then close."""
        loop.remove_reader(self._socket)
        while not leave and self.drain():
            pass
        self._socket.close()


def _nothing() -> None:
    pass
