"""Answers agent checks over TCP in the agent's own loop, without ever waiting for a client."""

from __future__ import annotations

import contextlib
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Final

from lbdns_agent.limited_listener import LimitedListener
from lbdns_agent.non_blocking_sensors import READABLE, DescriptorWait

MOST_OPEN: Final = 32  # connections; beyond that, the oldest is closed
MOST_PER_SECOND: Final = 100  # connections that are accepted; the kernel keeps further ones in its queue
LINGER: Final = 1.0  # seconds for which a client may take to close its connection
_DISCARD: Final = 4096  # bytes: a client may send a line before it reads (agent-send)


class AgentCheckServer:
    """Sends one line to every client that connects.

    The line fits into the buffer of a new connection, so sending never waits. Closing a socket that has unread data
    would reset the connection, and the client could lose the line. Each connection therefore stays open until the
    client closes it, but no longer than LINGER.
    """

    def __init__(self, listener: socket.socket, reply: Callable[[], bytes]) -> None:
        """``reply`` returns the line for a client that connects now."""
        self._listener, self._reply = LimitedListener(listener, MOST_PER_SECOND), reply
        self._open: OrderedDict[int, tuple[socket.socket, float]] = OrderedDict()  # with the time to close it
        self.asked_at: float | None = None  # monotonic time of the newest check

    def waits(self) -> Iterable[DescriptorWait]:
        """Return the descriptors to wait for."""
        yield from self._listener.waits()
        for descriptor in self._open:
            yield DescriptorWait(descriptor, READABLE)

    def deadline(self) -> float:
        """Return the monotonic time at which ``serve`` must be called even if no descriptor is ready."""
        close_at = next((until for _, until in self._open.values()), float("inf"))  # the oldest connection's
        return min(close_at, self._listener.deadline())

    def serve(self, ready: Collection[int]) -> None:
        """Read from the clients that are ready, close old connections, and accept at most one new connection."""
        for descriptor in [each for each in self._open if each in ready]:
            self._end(descriptor)
        now = time.monotonic()
        for descriptor in [each for each, (_, until) in self._open.items() if until <= now]:
            self._open.pop(descriptor)[0].close()
        if self._listener.is_in(ready):
            self._accept(now)

    def close(self) -> None:
        """Close all sockets."""
        self._listener.close()
        while self._open:
            self._open.popitem()[1][0].close()

    def _end(self, descriptor: int) -> None:
        """Discard the bytes that the client has sent, and close the connection. The response has already been sent."""
        connection, _ = self._open.pop(descriptor)
        with connection, contextlib.suppress(OSError):
            connection.recv(_DISCARD)

    def _accept(self, now: float) -> None:
        connection = self._listener.accept(now)
        if connection is None:
            return
        self.asked_at = now
        try:
            connection.send(self._reply())
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            connection.close()
            return
        self._open[connection.fileno()] = connection, now + LINGER
        if len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)[1][0].close()
