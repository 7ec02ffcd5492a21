"""The DNS listeners of one process: one server (UDP or TCP) for each socket. Servers can start and stop at any time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from lbdns.answering.responder import Responder
from lbdns.counting.response_times import ResponseTimes
from lbdns.model.farm import Farm
from lbdns.server.query_log.query_log import QueryLog
from lbdns.server.query_log.query_sampler import RunDeferred
from lbdns.server.transport.native_udp import NativeUdpServer, udp_server
from lbdns.server.transport.tcp import TcpServer
from lbdns.server.transport.udp import UdpServer
from lbdns.sockets.read_watch import WatchedSocket

_LOOPBACK: Final = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


class Listeners:
    """Runs one server for each socket. A socket has the same number in every process."""

    def __init__(self, responder: Responder, response_times: ResponseTimes, run_deferred: RunDeferred) -> None:
        self._responder, self._response_times, self._run_deferred = responder, response_times, run_deferred
        self._open: dict[int, UdpServer | TcpServer] = {}
        self._query_log = QueryLog()
        self._closed: Counter[str] = Counter()  # counters of closed sockets

    @property
    def servers(self) -> Collection[UdpServer | TcpServer]:
        return self._open.values()

    @property
    def watched(self) -> Sequence[WatchedSocket]:
        """Return everything that this process must read whenever data arrives."""
        slow_paths = [server.slow_path for server in self._natives()]
        return [*self._open.values(), *slow_paths]

    @property
    def numbers(self) -> set[int]:
        return set(self._open)

    def counters(self) -> Counter[str]:
        """Return the counters since startup, keyed by name. ``server_families`` describes each counter."""
        lost = Counter(query_log_lost=self._query_log.lost)
        return sum((_counted(server) for server in self._open.values()), self._closed + lost)

    def levels(self) -> dict[str, int]:
        """Return the gauges, keyed by name. The only gauge is ``tcp_open``, the number of open TCP connections."""
        servers = self._open.values()
        return {"tcp_open": sum(len(server.connections) for server in servers if isinstance(server, TcpServer))}

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let no thread answer queries while the context is active; afterwards, use the responder's current tables.

        Queries wait in the sockets meanwhile.
        """
        natives = self._natives()
        try:
            for server in natives:
                server.pause()
            yield
        finally:
            for server in natives:
                server.resume()

    def _natives(self) -> list[NativeUdpServer]:
        return [server for server in self._open.values() if isinstance(server, NativeUdpServer)]

    def log_queries(self, farm: Farm) -> None:
        """Apply the farm's query log configuration to all servers, and reopen the log file."""
        self._query_log.use(farm)
        for server in self._open.values():
            self._tap(server)

    def _tap(self, server: UdpServer | TcpServer) -> None:
        tap = self._query_log.tap(self._responder.respond, self._run_deferred)
        server.run_deferred = tap.run_deferred if tap else self._run_deferred
        server.tap(tap)

    async def take_up(self, sockets: Mapping[int, socket.socket]) -> None:
        """Take ownership of ``sockets``, and start answering queries on them."""
        loop = asyncio.get_running_loop()
        for number, sock in sockets.items():
            if sock.type == socket.SOCK_DGRAM:
                self._open[number] = udp = udp_server(sock, self._responder, self._response_times)
                self._tap(udp)
                udp.start(loop)
            else:
                self._open[number] = tcp = TcpServer(sock, self._responder, self._response_times)
                self._tap(tcp)
                await tcp.start(loop)

    async def leave(self, numbers: set[int], *, for_good: bool) -> None:
        """Answer the queries that have already arrived on the sockets in ``numbers``, and then stop.

        If ``for_good`` is true, no other process uses the sockets, so the kernel must not deliver more queries to them.
        Otherwise, the sockets stay open for the processes that share them.
        """
        loop = asyncio.get_running_loop()
        for number in numbers:
            server = self._open.pop(number)
            if isinstance(server, UdpServer):
                if for_good:
                    receive_no_more(server.sock)
                server.stop(loop)
            else:
                await server.stop()
            self._closed += _counted(server)

    async def close(self) -> None:
        """Stop answering on all sockets, and write all waiting lines of the query log."""
        await self.leave(self.numbers, for_good=False)
        await asyncio.to_thread(self._query_log.stop)


def receive_no_more(sock: socket.socket) -> None:
    """Stop the kernel from delivering datagrams to a UDP socket.

    Datagrams that are already in the socket's queue stay there. Queries that arrive after the last read would otherwise
    be lost when the socket is closed. Another socket in the SO_REUSEPORT group receives such queries instead.
    """
    # Connect the socket to itself: a connected socket receives datagrams only from its peer
    address = sock.getsockname()
    if address[0] in ("0.0.0.0", "::"):
        address = (_LOOPBACK[sock.family], *address[1:])
    with contextlib.suppress(OSError):  # fails if the host no longer has the address; then no query arrives either
        sock.connect(address)


def _counted(server: UdpServer | TcpServer) -> Counter[str]:
    if isinstance(server, UdpServer):
        return server.counters()
    return Counter(failed=server.errors.count, tcp_accepted=server.accepted, tcp_closed_early=server.closed_early)
