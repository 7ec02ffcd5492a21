"""Answers agent checks over TCP in the agent's own loop, without ever waiting for a client."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Final

from lbdns_agent.non_blocking_sensors import READABLE, DescriptorWait
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError

MOST_OPEN: Final = 32  # connections; beyond that, the oldest is closed
MOST_PER_SECOND: Final = 100  # connections that are accepted; the kernel keeps further ones in its queue
BACKLOG: Final = 64  # connections in the kernel's queue
LINGER: Final = 1.0  # seconds for which a client may take to close its connection
_DISCARD: Final = 4096  # bytes: a client may send a line before it reads (agent-send)


def open_listener(endpoint: Endpoint) -> socket.socket:
    """Return a listening socket. An empty host means all addresses, IPv6 and IPv4. Raises LbdnsError."""
    everywhere = not endpoint.host
    ipv6 = ":" in endpoint.host or (everywhere and socket.has_dualstack_ipv6())
    try:
        listener = socket.create_server(
            (endpoint.host, endpoint.port),
            family=socket.AF_INET6 if ipv6 else socket.AF_INET,
            backlog=BACKLOG,
            dualstack_ipv6=everywhere and ipv6,
        )
    except OSError as error:
        if everywhere and ipv6 and error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):  # IPv6 is switched off
            return open_listener(Endpoint("0.0.0.0", endpoint.port))
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise LbdnsError(f"--agent-check: cannot listen on {endpoint}: {reason}") from None
    listener.setblocking(False)
    return listener


class AgentCheckServer:
    """Sends one line to every client that connects.

    The line fits into the buffer of a new connection, so sending never waits. Closing a socket that has unread data
    would reset the connection, and the client could lose the line. Each connection therefore stays open until the
    client closes it, but no longer than LINGER.
    """

    def __init__(self, listener: socket.socket, reply: Callable[[], bytes]) -> None:
        """``reply`` returns the line for a client that connects now."""
        self._listener, self._reply = listener, reply
        self._open: OrderedDict[int, tuple[socket.socket, float]] = OrderedDict()  # with the time to close it
        self._second, self._accepted = 0.0, 0  # start of the current second, and connections accepted in it
        self.asked_at: float | None = None  # monotonic time of the newest check

    @property
    def is_paused(self) -> bool:
        """Whether this second's limit on connections has been reached."""
        return self._accepted >= MOST_PER_SECOND and time.monotonic() < self._second + 1.0

    def waits(self) -> Iterable[DescriptorWait]:
        """Return the descriptors to wait for."""
        if not self.is_paused:
            yield DescriptorWait(self._listener.fileno(), READABLE)
        for descriptor in self._open:
            yield DescriptorWait(descriptor, READABLE)

    def deadline(self) -> float:
        """Return the monotonic time at which ``serve`` must be called even if no descriptor is ready."""
        close_at = next((until for _, until in self._open.values()), float("inf"))  # the oldest connection's
        return min(close_at, self._second + 1.0) if self.is_paused else close_at

    def serve(self, ready: Collection[int]) -> None:
        """Read from the clients that are ready, close old connections, and accept at most one new connection."""
        for descriptor in [each for each in self._open if each in ready]:
            self._end(descriptor)
        now = time.monotonic()
        for descriptor in [each for each, (_, until) in self._open.items() if until <= now]:
            self._open.pop(descriptor)[0].close()
        if self._listener.fileno() in ready:
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
        if now >= self._second + 1.0:
            self._second, self._accepted = now, 0
        self._accepted += 1  # also if accepting fails: without a free descriptor, it would fail again at once
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        self.asked_at = now
        try:
            connection.setblocking(False)
            connection.send(self._reply())
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            connection.close()
            return
        self._open[connection.fileno()] = connection, now + LINGER
        if len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)[1][0].close()
