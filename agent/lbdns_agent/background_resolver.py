"""Resolves a host name in a background thread, so that slow lookups don't block the agent."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

from lbdns_shared.endpoint import Endpoint

REFRESH_INTERVAL: Final = 30.0  # seconds between two lookups of a name
SHORTEST_INTERVAL: Final = 2.0  # minimum seconds between two lookups, however often ``refresh`` is called

Address = tuple[socket.AddressFamily, tuple[Any, ...]]


def look_up_addresses(endpoint: Endpoint) -> list[Address]:
    """Return the addresses of an endpoint in the order in which they should be tried (RFC 6724). Raises OSError."""
    flags = socket.AI_NUMERICHOST if endpoint.is_address else 0
    answers = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_DGRAM, flags=flags)
    return [(family, where) for family, _, _, _, where in answers]


class BackgroundResolver:
    """A resolver that looks up the addresses of one host name repeatedly.

    If a lookup fails, the previous addresses remain in use.

    If the endpoint is already an IP address, no thread is started. ``error`` is the reason why the last lookup failed,
    or an empty string if it succeeded.

    """

    def __init__(self, endpoint: Endpoint, look_up: Callable[[Endpoint], list[Address]] = look_up_addresses) -> None:
        self.endpoint = endpoint
        self.error = ""
        self._addresses: tuple[Address, ...] | None = None
        self._look_up = look_up
        self._requested = threading.Event()
        self._first = threading.Event()
        self._is_closed = False
        if endpoint.is_address:
            self._first.set()
        else:
            threading.Thread(target=self._run, name=f"resolve {endpoint.host}", daemon=True).start()

    @property
    def addresses(self) -> tuple[Address, ...] | None:
        """The addresses found by the last successful lookup, or None until the first lookup has finished."""
        if not self._addresses and self.endpoint.is_address:
            self._addresses = ()
            with contextlib.suppress(OSError):  # the interface after % may not exist yet
                self._addresses = tuple(self._look_up(self.endpoint))
        return self._addresses

    def refresh(self) -> None:
        """Request another lookup, which starts as soon as SHORTEST_INTERVAL permits."""
        self._requested.set()

    def wait_for_first(self, longest: float) -> None:
        """Wait up to ``longest`` seconds for the first lookup to finish."""
        self._first.wait(longest)

    def close(self) -> None:
        """End the thread, after the lookup in progress."""
        self._is_closed = True
        self._requested.set()

    def _run(self) -> None:
        pause = threading.Event()
        while not self._is_closed:
            try:
                self._addresses = tuple(self._look_up(self.endpoint))
                self.error = ""
            except (OSError, UnicodeError) as error:
                # UnicodeError: not a valid host name, for example a label of 64 letters
                self.error = getattr(error, "strerror", None) or str(error)
                self._addresses = self._addresses or ()
            self._first.set()
            pause.wait(SHORTEST_INTERVAL)
            self._requested.wait(REFRESH_INTERVAL - SHORTEST_INTERVAL)
            self._requested.clear()
