"""Looking up the addresses of one collector's name, in a thread: a name server may take its time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any, Final

from lbdns.endpoint import Endpoint

EVERY: Final = 30.0  # seconds between two look-ups of a name
AT_LEAST: Final = 2.0  # seconds between two, however often one is asked for

Address = tuple[socket.AddressFamily, tuple[Any, ...]]


def look_up(endpoint: Endpoint) -> list[Address]:
    """The addresses of an endpoint in the order to try them (RFC 6724). Raises OSError."""
    flags = socket.AI_NUMERICHOST if endpoint.is_address else 0
    answers = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_DGRAM, flags=flags)
    return [(family, where) for family, _, _, _, where in answers]


class Resolver:
    """Keeps the addresses of one name; the last good ones while it can't be looked up.

    ``addresses`` is None until the first look-up has ended. ``error`` says why the last one failed.
    """

    def __init__(self, endpoint: Endpoint, look_up: Callable[[Endpoint], list[Address]] = look_up) -> None:
        self.endpoint = endpoint
        self.addresses: tuple[Address, ...] | None = None
        self.error = ""
        self._look_up = look_up
        self._wanted = threading.Event()
        self._first = threading.Event()
        threading.Thread(target=self._run, name=f"resolve {endpoint.host}", daemon=True).start()

    def again(self) -> None:
        """Look the name up soon."""
        self._wanted.set()

    def wait_for_first(self, longest: float) -> None:
        """Wait until the first look-up has ended, at most so many seconds."""
        self._first.wait(longest)

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            try:
                self.addresses = tuple(self._look_up(self.endpoint))
                self.error = ""
            except (OSError, UnicodeError) as error:
                # UnicodeError: a name that can't be one, such as a label of 64 letters
                self.error = getattr(error, "strerror", None) or str(error)
                self.addresses = self.addresses or ()
            self._first.set()
            pause.wait(AT_LEAST)
            self._wanted.wait(EVERY - AT_LEAST)
            self._wanted.clear()
