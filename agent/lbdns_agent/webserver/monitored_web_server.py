"""Finds the web server that serves the status page, and measures its accept queues and CPU time."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable, Iterable
from typing import Final

from lbdns_agent.missing_values import MissingValueError, SwitchedOffError
from lbdns_agent.webserver.listening_sockets import ListeningSocket, ListeningSocketReader
from lbdns_agent.webserver.web_server_processes import WebServerEndedError, WebServerProcesses

FULL_READ_INTERVAL: Final = 10.0  # seconds between two reads of all listening sockets, not only of the server's


class NothingListensError(MissingValueError):
    """Raised if no socket is listening on the web server's address and port."""


class MonitoredWebServer:
    """The web server that listens on ``port`` at one of the addresses in ``addresses()`` (network byte order)."""

    def __init__(self, addresses: Callable[[], tuple[bytes, ...]], port: int, proc: str = "/proc") -> None:
        self._addresses = addresses
        self.port = port
        self.sockets = ListeningSocketReader(proc)
        self._processes = WebServerProcesses(proc)
        self._listeners: list[ListeningSocket] = []  # the server's sockets
        self._up_to_date = False  # ``_listeners`` was read in this round
        self._next_full_read = 0.0
        self._local: set[bytes] = set()

    def start_round(self) -> None:
        """Discard the cached values, so that the next call reads the sockets again."""
        self._up_to_date = False

    def listen_queue(self) -> int:
        """Return the total number of connections waiting in the server's accept queues. Raises MissingValueError."""
        self._read_sockets()
        return sum(listener.queue for listener in self._listeners)

    def is_listening(self) -> bool | None:
        """Return whether a socket is listening on the server's address and port.

        Returns None if the address is unknown, or if the check is too expensive because sock_diag isn't available.
        """
        if not self.sockets.cheap:
            return None
        if self._listeners and self.sockets.read_again(self._listeners) is not None:
            return True
        try:
            return bool(self._page_sockets(self.sockets.read_all()))
        except NothingListensError:
            return False
        except MissingValueError:
            return None

    def cpu_seconds(self) -> float:
        """Return the CPU time in seconds used by the server's own cgroup or, if it has none, by its process tree.

        Raises MissingValueError.

        If another server takes over the port, its CPU time replaces that of the previous server.

        """
        self._read_sockets()
        try:
            return self._processes.cpu_seconds(self.port)
        except WebServerEndedError:
            self._up_to_date, self._next_full_read = False, 0.0
            self._read_sockets()
            return self._processes.cpu_seconds(self.port)

    def _read_sockets(self) -> None:
        if self._up_to_date:
            return
        if self._listeners and time.monotonic() < self._next_full_read:
            again = self.sockets.read_again(self._listeners)
            if again is not None:
                self._listeners, self._up_to_date = again, True
                return
        self._listeners = []
        listeners = self.sockets.read_all()
        mine = frozenset(listener.inode for listener in self._page_sockets(listeners))
        own = self._processes.find(mine, frozenset(listener.inode for listener in listeners))
        self._listeners = [listener for listener in listeners if listener.inode in mine or listener.inode in own]
        self._up_to_date, self._next_full_read = True, time.monotonic() + FULL_READ_INTERVAL

    def _page_sockets(self, listeners: Iterable[ListeningSocket]) -> list[ListeningSocket]:
        """Return the sockets bound to the status page's address or, if there are none, the sockets bound to all
        addresses.

        Raises MissingValueError.
        """
        targets = self._addresses()
        if not targets:
            raise MissingValueError("the address of the status page is not known yet")
        if not any(self._is_local(target) for target in targets):
            raise MissingValueError("the status page is on another host")
        at_port = [listener for listener in listeners if listener.port == self.port]
        exact = {form for target in targets for form in _forms(target)}
        found = [listener for listener in at_port if listener.address in exact]
        found = found or [listener for listener in at_port if not any(listener.address)]
        if not found:
            where = " or ".join(str(ipaddress.ip_address(target)) for target in targets)
            raise NothingListensError(f"nothing listens on port {self.port} of {where}")
        return found

    def _is_local(self, address: bytes) -> bool:
        """Return whether ``address`` belongs to this host.

        A socket can be bound only to the host's own addresses (ip(7)).
        """
        if address not in self._local:
            family = socket.AF_INET if len(address) == 4 else socket.AF_INET6
            try:
                with socket.socket(family, socket.SOCK_DGRAM) as probe:
                    probe.bind((socket.inet_ntop(family, address), 0))
            except OSError:
                return False  # not remembered: the host may get the address later
            self._local.add(address)
        return True


def monitored(server: MonitoredWebServer | None) -> MonitoredWebServer:
    """Return ``server``. Raises SwitchedOffError if ``server`` is None."""
    if server is None:
        raise SwitchedOffError("switched off by --server-status off")
    return server


def _forms(address: bytes) -> tuple[bytes, ...]:
    """Return an address and, for IPv4, also its IPv4-mapped IPv6 form (RFC 4291 section 2.5.5.2)."""
    return (address, bytes(10) + b"\xff\xff" + address) if len(address) == 4 else (address,)
