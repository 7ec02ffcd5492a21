"""The read watch: finds sockets of this process that have had unread data for too long."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Iterable
from typing import Final, Protocol

EVERY: Final = 0.5  # s between checks: two system calls for all sockets together


class WatchedSocket(Protocol):
    """A socket that its owner reads whenever data arrives.

    For a listening socket, reading means accepting connections.
    """

    @property
    def reads(self) -> int: ...  # number of reads so far; any number that grows with each read will do

    def fileno(self) -> int:
        """Return the socket's descriptor, or -1 if it is closed."""

    def __str__(self) -> str:
        """Return the protocol and the address, for messages."""


class ReadWatch:
    """Starts checking sockets when it is created, and continues until ``stop`` is called. Creating an
    instance requires a running event loop.

    If a socket is readable at two checks but was not read in between, its owner has stopped reading. A busy event loop
    alone cannot cause this, because the loop handles readable sockets before timers.
    """

    def __init__(self, sockets: Callable[[], Iterable[WatchedSocket]], every: float = EVERY) -> None:
        """``sockets`` returns the sockets to check; the set of sockets may change between checks."""
        #: Which sockets are not read; empty while all are
        self.fault = ""
        self._sockets, self._every = sockets, every
        self._loop = asyncio.get_running_loop()
        self._reads: dict[WatchedSocket, int] = {}  # of the sockets that were readable at the last check
        self._timer = self._loop.call_later(every, self._check)

    def stop(self) -> None:
        self._timer.cancel()

    def _check(self) -> None:
        before, self._reads = self._reads, {sock: sock.reads for sock in _readable(self._sockets())}
        stuck = [str(sock) for sock, reads in self._reads.items() if before.get(sock) == reads]
        self.fault = f"not reading {', '.join(stuck)}" if stuck else ""
        self._timer = self._loop.call_later(self._every, self._check)


def _readable(sockets: Iterable[WatchedSocket]) -> list[WatchedSocket]:
    by_descriptor = {sock.fileno(): sock for sock in sockets}
    by_descriptor.pop(-1, None)
    poll = select.poll()
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    return [by_descriptor[descriptor] for descriptor, _ in poll.poll(0)]
