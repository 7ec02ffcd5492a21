"""The web server of this host, found by the address of its status page: its accept queues and its CPU time."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable, Iterable
from typing import Final

from lbdns_agent.absent import AbsentError
from lbdns_agent.webserver.listeners import Listener, ListeningSockets
from lbdns_agent.webserver.processes import EndedError, Processes

ALL_AGAIN: Final = 10.0  # seconds until all listening sockets are looked at once more, not only the server's


class WebServer:
    """The server that listens on ``port`` of one of ``addresses()`` (network order)."""

    def __init__(self, addresses: Callable[[], tuple[bytes, ...]], port: int, proc: str = "/proc") -> None:
        self._addresses = addresses
        self._port = port
        self._sockets = ListeningSockets(proc)
        self._processes = Processes(proc)
        self._listeners: list[Listener] = []  # the server's
        self._seen = False  # they are as of this round
        self._all_again = 0.0
        self._local: set[bytes] = set()

    @property
    def cheap(self) -> bool:
        """Whether the accept queues may be watched between samples."""
        return self._sockets.cheap

    def new_round(self) -> None:
        """What is asked for from now on is read anew."""
        self._seen = False

    def listen_queue(self) -> int:
        """Connections waiting to be accepted, over the sockets of the port and of the server's processes.

        Raises AbsentError.
        """
        self._look()
        return sum(listener.queue for listener in self._listeners)

    def cpu_seconds(self) -> float:
        """CPU seconds of the server and all it started, cumulative; a new server begins anew. Raises AbsentError."""
        self._look()
        try:
            return self._processes.cpu_seconds(self._port)
        except EndedError:
            self._seen, self._all_again = False, 0.0
            self._look()
            return self._processes.cpu_seconds(self._port)

    def _look(self) -> None:
        """Read the server's listening sockets, at most once a round. Raises AbsentError."""
        if self._seen:
            return
        if self._listeners and time.monotonic() < self._all_again:
            again = self._sockets.again(self._listeners)
            if again is not None:
                self._listeners, self._seen = again, True
                return
        self._listeners = []
        listeners = self._sockets.all()
        mine = frozenset(listener.inode for listener in self._mine(listeners))
        own = self._processes.find(mine, frozenset(listener.inode for listener in listeners))
        self._listeners = [listener for listener in listeners if listener.inode in mine or listener.inode in own]
        self._seen, self._all_again = True, time.monotonic() + ALL_AGAIN

    def _mine(self, listeners: Iterable[Listener]) -> list[Listener]:
        """The sockets behind the page's address: bound to it, else to any address. Raises AbsentError."""
        targets = self._addresses()
        if not targets:
            raise AbsentError("the address of the status page is not known yet")
        if not any(self._is_local(target) for target in targets):
            raise AbsentError("the status page is on another host")
        at_port = [listener for listener in listeners if listener.port == self._port]
        exact = {form for target in targets for form in _forms(target)}
        found = [listener for listener in at_port if listener.address in exact]
        found = found or [listener for listener in at_port if not any(listener.address)]
        if not found:
            where = " or ".join(str(ipaddress.ip_address(target)) for target in targets)
            raise AbsentError(f"nothing listens on port {self._port} of {where}")
        return found

    def _is_local(self, address: bytes) -> bool:
        """Whether an address is this host's: then, and only then, it can be bound to (ip(7))."""
        if address not in self._local:
            family = socket.AF_INET if len(address) == 4 else socket.AF_INET6
            try:
                with socket.socket(family, socket.SOCK_DGRAM) as probe:
                    probe.bind((socket.inet_ntop(family, address), 0))
            except OSError:
                return False  # not kept: it may be given to this host later
            self._local.add(address)
        return True


def _forms(address: bytes) -> tuple[bytes, ...]:
    """An IPv4 address also as IPv6 sockets see it (RFC 4291 section 2.5.5.2)."""
    return (address, bytes(10) + b"\xff\xff" + address) if len(address) == 4 else (address,)
