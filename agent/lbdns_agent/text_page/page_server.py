"""Serves the text page over HTTP in the agent's own loop, without ever waiting for a client."""

from __future__ import annotations

import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from http import HTTPStatus
from typing import Final

from lbdns_agent.limited_listener import LimitedListener
from lbdns_agent.non_blocking_sensors import READABLE, WRITABLE, DescriptorWait
from lbdns_agent.text_page.page_request import LARGEST_REQUEST, error, is_complete

MOST_OPEN: Final = 16  # connections; beyond that, the oldest is closed
MOST_PER_SECOND: Final = 20  # connections that are accepted; the page changes only with each sample
TIME_LIMIT: Final = 2.0  # seconds from the first to the last byte of a connection, for slow readers too
MOST_READS: Final = 16  # system calls in which a request must arrive: each one wakes the agent


class _Client:
    """One connection: receives a request, sends the response, and waits until the client closes the connection."""

    def __init__(self, connection: socket.socket, until: float, respond: Callable[[bytes], bytes]) -> None:
        self.until = until  # monotonic time at which the connection is closed
        self._connection = connection
        self._respond = respond
        self._request = b""
        self._reads = 0
        self._unsent: bytes | None = None  # None until the request is complete

    @property
    def events(self) -> int:
        return WRITABLE if self._unsent else READABLE

    def advance(self) -> bool:
        """Receive or send as much as is possible now. Return whether the connection must stay open."""
        try:
            if self._unsent is None:
                return self._receive()
            if self._unsent:
                return self._send()
            self._connection.recv(LARGEST_REQUEST)  # the client closes the connection, or sends more than it should
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        self._connection.close()

    def _receive(self) -> bool:
        part = self._connection.recv(LARGEST_REQUEST)
        self._request += part
        self._reads += 1
        if not part:
            return False
        if is_complete(self._request):
            self._unsent = self._respond(self._request)
        elif len(self._request) >= LARGEST_REQUEST or self._reads >= MOST_READS:
            self._unsent = error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too long")
        return self._send() if self._unsent else True

    def _send(self) -> bool:
        assert self._unsent is not None
        self._unsent = self._unsent[self._connection.send(self._unsent) :]
        if not self._unsent:
            # Closing a socket that has unread data would reset the connection, and the client could lose the response
            self._connection.shutdown(socket.SHUT_WR)
        return True


class TextPageServer:
    """Answers one request per connection. The limits on connections, bytes, system calls and time are constants of
    this module.
    """

    def __init__(self, listener: socket.socket, respond: Callable[[bytes], bytes]) -> None:
        """``respond`` returns the response to a complete request; it must not block."""
        self._listener = LimitedListener(listener, MOST_PER_SECOND)
        self._respond = respond
        self._clients: OrderedDict[int, _Client] = OrderedDict()  # by descriptor, the oldest first

    def waits(self) -> Iterable[DescriptorWait]:
        """Return the descriptors to wait for."""
        yield from self._listener.waits()
        for descriptor, client in self._clients.items():
            yield DescriptorWait(descriptor, client.events)

    def deadline(self) -> float:
        """Return the monotonic time at which ``serve`` must be called even if no descriptor is ready."""
        oldest = next((client.until for client in self._clients.values()), float("inf"))
        return min(oldest, self._listener.deadline())

    def serve(self, ready: Collection[int]) -> None:
        """Serve the clients that are ready, drop those that are too slow, and accept at most one new connection."""
        now = time.monotonic()
        for descriptor, client in list(self._clients.items()):
            if client.until <= now or (descriptor in ready and not client.advance()):
                self._clients.pop(descriptor).close()
        if not self._listener.is_in(ready):
            return
        connection = self._listener.accept(now)
        if connection is not None:
            self._clients[connection.fileno()] = _Client(connection, now + TIME_LIMIT, self._respond)
            if len(self._clients) > MOST_OPEN:
                self._clients.popitem(last=False)[1].close()

    def close(self) -> None:
        """Close all sockets."""
        self._listener.close()
        while self._clients:
            self._clients.popitem()[1].close()
