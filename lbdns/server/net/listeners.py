"""The sockets that one process answers DNS on: taken up and left while others go on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from lbdns.answering.errand import Errand
from lbdns.answering.respond import Responder
from lbdns.farm import Farm
from lbdns.server.net.durations import Durations
from lbdns.server.net.query_log import QueryLog
from lbdns.server.net.tcp import TcpServer
from lbdns.server.net.udp import UdpServer

#: Gets an errand and what sends the response that it leads to.
RunErrand = Callable[[Errand, Callable[[bytes], None]], None]
_LOOPBACK: Final = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


class Listeners:
    """A server for each socket. Sockets have numbers, by which they are known in every process."""

    def __init__(self, responder: Responder, durations: Durations, run_errand: RunErrand) -> None:
        self._responder, self._durations, self._run_errand = responder, durations, run_errand
        self._open: dict[int, UdpServer | TcpServer] = {}
        self._query_log = QueryLog()
        self._gone: Counter[str] = Counter()  # what sockets counted that are closed

    @property
    def numbers(self) -> set[int]:
        """The sockets that are answered on."""
        return set(self._open)

    def counters(self) -> Counter[str]:
        """So far: "unsent" responses, which the kernel would not take; queries that "failed" by a mistake of ours, or
        were "shed" in a flood of unusual ones; "udp_overflows", queries that the kernel dropped on a full buffer;
        connections "tcp_accepted", and "tcp_closed_early", by a limit; lines of the query log that were lost,
        "query_log_lost"."""
        lost = Counter(query_log_lost=self._query_log.lost)
        return sum((_counted(server) for server in self._open.values()), self._gone + lost)

    def levels(self) -> dict[str, int]:
        """Just now: connections that are "tcp_open"."""
        servers = self._open.values()
        return {"tcp_open": sum(len(server.connections) for server in servers if isinstance(server, TcpServer))}

    def log_queries(self, farm: Farm) -> None:
        """Keep the query log as this configuration says from now on; its file is opened anew."""
        self._query_log.use(farm)
        for server in self._open.values():
            self._watch(server)

    def _watch(self, server: UdpServer | TcpServer) -> None:
        watch = self._query_log.watch(self._responder.respond, self._run_errand)
        server.run_errand = watch.run_errand if watch else self._run_errand
        server.watch_by(watch)

    async def take_up(self, sockets: Mapping[int, socket.socket]) -> None:
        """Answer on these too. They belong to the listeners from now on."""
        loop = asyncio.get_running_loop()
        for number, sock in sockets.items():
            if sock.type == socket.SOCK_DGRAM:
                self._open[number] = udp = UdpServer(sock, self._responder, self._durations)
                self._watch(udp)
                udp.start(loop)
            else:
                self._open[number] = tcp = TcpServer(sock, self._responder, self._durations)
                self._watch(tcp)
                await tcp.start(loop)

    async def leave(self, numbers: set[int], *, for_good: bool) -> None:
        """Answer no longer on these; what has arrived there is still answered.

        ``for_good``: nobody else answers there, so nothing more shall arrive. Otherwise the sockets themselves stay as
        they are, for others who have them.
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
            self._gone += _counted(server)

    async def close(self) -> None:
        await self.leave(self.numbers, for_good=False)
        await asyncio.to_thread(self._query_log.stop)  # it writes what waits


def receive_no_more(sock: socket.socket) -> None:
    """Have the kernel put no further datagram into a UDP socket, and leave those that are in it.

    A connected socket hears its peer alone, and here that is itself. Without this, what arrives between the last look
    into it and its closing would be lost, although other sockets of its group (SO_REUSEPORT) could have taken it.
    """
    address = sock.getsockname()
    if address[0] in ("0.0.0.0", "::"):
        address = (_LOOPBACK[sock.family], *address[1:])
    with contextlib.suppress(OSError):  # its address may be gone from the machine: then nothing arrives either
        sock.connect(address)


def _counted(server: UdpServer | TcpServer) -> Counter[str]:
    counts = Counter(failed=server.mistakes.count)
    if isinstance(server, UdpServer):
        counts["unsent"] = server.unsent
        counts["shed"] = server.overload.shed
        counts["udp_overflows"] = server.overflows
    else:
        counts["tcp_accepted"] = server.accepted
        counts["tcp_closed_early"] = server.closed_early
    return counts
