"""Accepts connections, even if the process has run out of file descriptors, without wasting CPU time on retries.

Without a free descriptor, accept(2) fails, but the connection stays in the queue and the socket stays readable. A
server that retries immediately therefore wastes all its CPU time.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

from lbdns.sockets.descriptor_reserve import DescriptorReserve

log = logging.getLogger("lbdns")

RETRY: Final = 0.1  # s between attempts while accepting fails
QUIET: Final = 10.0  # s without a failed attempt until the shortage counts as over; limits the log to two lines in 10 s
AT_ONCE: Final = 64  # connections accepted in a row; then other work of the event loop has its turn


class Acceptor:
    """Accepts the connections on one listening socket, either all at once (``start``) or one by one (``accept``).

    One descriptor is kept in reserve. If no other descriptor is left, the reserved descriptor is used to accept one
    connection. The next connection is accepted when a descriptor is free again, so clients are served one at a time.
    The caller must eventually call ``close``, which leaves the listening socket open.
    """

    def __init__(self, sock: socket.socket, name: str, make_room: Callable[[], bool] = lambda: False) -> None:
        """``name`` identifies the socket in log lines.

        The acceptor calls ``make_room`` if no descriptor is left. ``make_room`` selects a connection to close in the
        next iteration of the event loop, and returns whether there was one.
        """
        self._sock, self._name, self._make_room = sock, name, make_room
        self._loop = asyncio.get_running_loop()
        self._reserve = DescriptorReserve()
        self._short_until = 0.0  # loop time when the shortage is over unless another attempt fails
        self._end: asyncio.TimerHandle | None = None  # checks for the end of the shortage; None: no shortage
        self._retry: asyncio.TimerHandle | None = None

    def start(self, on_connection: Callable[[socket.socket], None]) -> None:
        """Pass every connection to ``on_connection``, as a non-blocking socket, until ``close`` is called."""
        self._retry = None
        self._loop.add_reader(self._sock, self._accept_waiting, on_connection)

    def close(self) -> None:
        """Stop accepting connections, and release the reserve."""
        self._loop.remove_reader(self._sock)
        for timer in (self._end, self._retry):
            if timer:
                timer.cancel()
        self._reserve.release()

    async def accept(self) -> socket.socket:
        """Wait for the next connection, and return it as a non-blocking socket.

        If a connection is already waiting, no other task runs during the call.
        """
        while True:
            try:
                return (await self._loop.sock_accept(self._sock))[0]
            except ConnectionAbortedError:
                continue  # the client has gone, and the call has removed the connection from the queue
            except OSError as error:
                await asyncio.sleep(self._make_do(error))

    def _accept_waiting(self, on_connection: Callable[[socket.socket], None]) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, _ = self._sock.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if delay := self._make_do(error):
                    self._loop.remove_reader(self._sock)
                    self._retry = self._loop.call_later(delay, self.start, on_connection)
                return
            connection.setblocking(False)
            on_connection(connection)

    def _make_do(self, error: OSError) -> float:
        """Try to free a descriptor, and return the delay in seconds until the next attempt (0: the next iteration)."""
        self._note(error)
        if self._make_room() or self._reserve.release():
            return 0.0
        self._reserve.restore()
        return RETRY

    def _note(self, error: OSError) -> None:
        self._short_until = self._loop.time() + QUIET
        if self._end is None:
            what = "%s: accepting connections failed: %s; clients are served one at a time"
            log.warning(what, self._name, error.strerror)
            self._end = self._loop.call_at(self._short_until, self._end_shortage)

    def _end_shortage(self) -> None:
        if not (self._reserve.restore() and DescriptorReserve().release()):
            self._short_until = self._loop.time() + QUIET
        if self._loop.time() < self._short_until:
            self._end = self._loop.call_at(self._short_until, self._end_shortage)
        else:
            self._end = None
            log.info("%s: connections are accepted again", self._name)
