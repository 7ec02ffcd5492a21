"""A listening TCP socket of the agent that accepts a limited number of connections per second, and never blocks."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterable
from typing import Final

from lbdns_agent.non_blocking_sensors import READABLE, DescriptorWait
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError

BACKLOG: Final = 64  # connections in the kernel's queue


def open_listener(endpoint: Endpoint, option: str) -> socket.socket:
    """Return a listening socket. An empty host means all addresses, IPv6 and IPv4.

    Raises LbdnsError, whose text begins with the name of the option.
    """
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
            return open_listener(Endpoint("0.0.0.0", endpoint.port), option)
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise LbdnsError(f"{option}: cannot listen on {endpoint}: {reason}") from None
    listener.setblocking(False)
    return listener


class LimitedListener:
    """Accepts at most ``most_per_second`` connections per second; the kernel keeps further ones in its queue."""

    def __init__(self, listener: socket.socket, most_per_second: int) -> None:
        self._listener = listener
        self._most_per_second = most_per_second
        self._second, self._accepted = 0.0, 0  # start of the current second, and connections accepted in it

    @property
    def _is_paused(self) -> bool:
        return self._accepted >= self._most_per_second and time.monotonic() < self._second + 1.0

    def waits(self) -> Iterable[DescriptorWait]:
        """Return the descriptor to wait for, or nothing if this second's limit has been reached."""
        if not self._is_paused:
            yield DescriptorWait(self._listener.fileno(), READABLE)

    def deadline(self) -> float:
        """Return the monotonic time at which connections are accepted again, or infinity if they are now."""
        return self._second + 1.0 if self._is_paused else float("inf")

    def is_in(self, ready: Iterable[int]) -> bool:
        """Return whether ``ready`` contains the socket's descriptor."""
        return self._listener.fileno() in ready

    def accept(self, now: float) -> socket.socket | None:
        """Return the next connection, which doesn't block, or None if there is none. ``now`` is monotonic time."""
        if now >= self._second + 1.0:
            self._second, self._accepted = now, 0
        self._accepted += 1  # also if accepting fails: without a free descriptor, it would fail again at once
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return None
        connection.setblocking(False)
        return connection

    def close(self) -> None:
        """Close the socket."""
        self._listener.close()
