"""Clients that keep connections open: idle clients, slow senders, and clients that never read."""

from __future__ import annotations

import contextlib
import resource
import select
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lbdns_tools.bench.dns.benchmark_farm import loopback_address
from lbdns_tools.faults.background_thread import background_thread
from lbdns_tools.faults.requirements import DESCRIPTORS

PER_ADDRESS: Final = 100  # connections from each address
BATCH: Final = 200  # connections that are opened without a pause
RECONNECT_S: Final = 0.5
IP_BIND_ADDRESS_NO_PORT: Final = 24  # linux/in.h; in the socket module since Python 3.12
CONNECT_S: Final = 20.0  # s within which the connections of a batch should be established


def allow_descriptors() -> None:
    """Raise this process's limit on open files to DESCRIPTORS, or to the hard limit if that is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < DESCRIPTORS:
        wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def source(number: int, is_local: bool) -> str:
    """Return the address of client ``number``: 127.0.0.1 if ``is_local`` is set, otherwise another loopback address."""
    return "127.0.0.1" if is_local else loopback_address(1000 + number // PER_ADDRESS)


class Connections:
    """A set of TCP connections to one port.

    ``renew`` reopens the connections that the server has closed. ``opened`` is the number of connections opened so far.
    The caller must call ``close`` at the end.
    """

    def __init__(self, port: int, count: int, is_local: bool = False) -> None:
        allow_descriptors()
        self.opened = 0
        self._port, self._is_local = port, is_local
        self._sockets: dict[int, tuple[int, socket.socket]] = {}  # by descriptor: the client's number, and its socket
        self._events = select.epoll()
        for first in range(0, count, BATCH):
            numbers = range(first, min(count, first + BATCH))
            self._await_connected([self._open(number) for number in numbers])

    def _open(self, number: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        sock.bind((source(number, self._is_local), 0))
        with contextlib.suppress(BlockingIOError):
            sock.connect(("127.0.0.1", self._port))
        self._sockets[sock.fileno()] = (number, sock)
        self._events.register(sock, select.EPOLLRDHUP | select.EPOLLET)
        self.opened += 1
        return sock

    def _await_connected(self, fresh: list[socket.socket]) -> None:
        """Wait until all connections in ``fresh`` are established, or the server's backlog accepts no more
        connections."""
        end, waiting = time.monotonic() + CONNECT_S, {sock.fileno() for sock in fresh}
        while waiting and time.monotonic() < end:
            poll = select.poll()
            for descriptor in waiting:
                poll.register(descriptor, select.POLLOUT)
            found = poll.poll(100)
            if not found and len(waiting) < len(fresh):
                return  # the kernel goes on trying
            waiting -= {descriptor for descriptor, _ in found}

    def renew(self) -> list[socket.socket]:
        """Reopen up to BATCH connections that the server has closed, and return the new sockets."""
        fresh = []
        for descriptor, _ in self._events.poll(0, BATCH):
            number, sock = self._sockets.pop(descriptor)
            self._events.unregister(sock)
            sock.close()
            fresh.append(self._open(number))
        return fresh

    def send(self, data: bytes) -> None:
        """Send ``data`` on every connection."""
        for _, sock in list(self._sockets.values()):
            with contextlib.suppress(OSError):
                sock.send(data)

    def close(self) -> None:
        for _, sock in self._sockets.values():
            sock.close()
        self._events.close()


@contextlib.contextmanager
def held(connections: Connections, beginning: bytes, dribble: bytes, period: float) -> Iterator[None]:
    """Keep connections open from a thread, as an attacker would, for the duration of a with statement.

    Each new or reopened connection first sends ``beginning``. After that, it sends one byte of ``dribble`` every
    ``period`` seconds.
    """

    def run(over: threading.Event) -> None:
        connections.send(beginning)
        at = 0
        while not over.wait(period):
            for sock in connections.renew():
                with contextlib.suppress(OSError):
                    sock.send(beginning)
            if dribble:
                connections.send(dribble[at % len(dribble) :][:1])
                at += 1

    with background_thread("held-connections", run):
        yield


@contextlib.contextmanager
def control_clients_that_never_read(path: Path, count: int, command: bytes) -> Iterator[None]:
    """Run ``count`` clients of the control socket that send ``command`` continuously and read no reply.

    Each client reconnects every RECONNECT_S seconds, because a server stops reading from clients that do not read.
    """

    def run(over: threading.Event) -> None:
        while not over.is_set():
            with contextlib.ExitStack() as clients:
                sockets = [
                    clients.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) for _ in range(count)
                ]
                for sock in sockets:
                    sock.setblocking(False)
                    with contextlib.suppress(OSError):
                        sock.connect(str(path))
                end = time.monotonic() + RECONNECT_S
                while time.monotonic() < end and not over.wait(0.02):
                    for sock in sockets:
                        with contextlib.suppress(OSError):
                            sock.send(command * 20)

    with background_thread("control-clients", run):
        yield
