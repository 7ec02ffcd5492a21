"""All the sockets that DNS is answered on, as one thing that can be opened, changed and closed."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Iterable

from lbdns.answering.respond import Responder
from lbdns.endpoint import Endpoint
from lbdns.errors import ListenError
from lbdns.listening import bound_endpoint
from lbdns.server.durations import Durations
from lbdns.server.listen import WILDCARDS, open_tcp, open_udp
from lbdns.server.tcp import TcpServer
from lbdns.server.udp import UdpServer

log = logging.getLogger("lbdns.server")

_PORT_ZERO_TRIES = 20  # a port that is free for UDP may be taken for TCP


class Change:
    """Sockets that are open but don't answer yet: to be carried out or dropped."""

    def __init__(self, listeners: Listeners, wanted: tuple[Endpoint, ...]) -> None:
        self.wanted = wanted
        self.fresh: dict[Endpoint, tuple[socket.socket, socket.socket]] = {}
        self._listeners = listeners

    async def carry_out(self) -> None:
        """Answer on the new sockets, then close those that are no longer wanted."""
        await self._listeners.apply(self)

    def drop(self) -> None:
        """Everything stays as it was."""
        for pair in self.fresh.values():
            for sock in pair:
                sock.close()
        self.fresh.clear()


class Listeners:
    """UDP and TCP on every endpoint."""

    def __init__(self, responder: Responder, durations: Durations) -> None:
        self._responder, self._durations = responder, durations
        self._open: dict[Endpoint, tuple[UdpServer, TcpServer]] = {}
        self._unsent = self._failed = 0  # of sockets that are closed

    @property
    def endpoints(self) -> list[Endpoint]:
        """Where DNS is answered, with real ports."""
        return [udp.endpoint for udp, _ in self._open.values()]

    @property
    def unsent(self) -> int:
        """Responses so far that the kernel would not take."""
        return self._unsent + sum(udp.unsent for udp, _ in self._open.values())

    @property
    def failed(self) -> int:
        """Queries so far that met a mistake of ours."""
        return self._failed + sum(_failed(*pair) for pair in self._open.values())

    async def listen(self, endpoints: Iterable[Endpoint]) -> None:
        """Listen on these and no others: what is new is opened before what is old is closed.

        Raises ListenError when one can't be had, and then nothing has changed.
        """
        await self.prepare(endpoints).carry_out()

    def prepare(self, endpoints: Iterable[Endpoint]) -> Change:
        """Open what is new among these, not answering there yet, and close nothing: the change can still be dropped.

        Raises ListenError when one can't be had, and then nothing is open.
        """
        change = Change(self, tuple(dict.fromkeys(endpoints)))
        try:
            for endpoint in change.wanted:
                if endpoint not in self._open:
                    change.fresh[endpoint] = _open_pair(endpoint)
        except ListenError as error:
            change.drop()
            ours = [here for here in self.endpoints if _overlap(here, endpoint)]
            if ours:
                what = f"{endpoint}: overlaps {ours[0]}, where this server answers now; to go over needs a restart"
                raise ListenError(what) from error
            raise
        return change

    async def close(self) -> None:
        await self.listen(())

    async def apply(self, change: Change) -> None:
        for endpoint, (udp_socket, tcp_socket) in change.fresh.items():
            await self._start(endpoint, udp_socket, tcp_socket)
        for endpoint in [endpoint for endpoint in self._open if endpoint not in change.wanted]:
            await self._stop(endpoint)

    async def _start(self, endpoint: Endpoint, udp_socket: socket.socket, tcp_socket: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        udp = UdpServer(udp_socket, self._responder, self._durations)
        tcp = TcpServer(tcp_socket, self._responder, self._durations)
        udp.start(loop)
        await tcp.start(loop)
        self._open[endpoint] = (udp, tcp)
        log.info("answering DNS on %s", udp.endpoint)

    async def _stop(self, endpoint: Endpoint) -> None:
        udp, tcp = self._open.pop(endpoint)
        udp.stop(asyncio.get_running_loop())
        await tcp.stop()
        self._unsent += udp.unsent
        self._failed += _failed(udp, tcp)


def _overlap(one: Endpoint, other: Endpoint) -> bool:
    """Whether one takes the other's place because it stands for every address."""
    family = [":" in endpoint.host for endpoint in (one, other)]
    return one.port == other.port and family[0] == family[1] and not {one.host, other.host}.isdisjoint(WILDCARDS)


def _failed(udp: UdpServer, tcp: TcpServer) -> int:
    return udp.mistakes.count + tcp.mistakes.count


def _open_pair(endpoint: Endpoint) -> tuple[socket.socket, socket.socket]:
    """UDP and TCP on the same port, also if any will do (0)."""
    for attempt in range(_PORT_ZERO_TRIES):
        udp = open_udp(endpoint)
        try:
            return udp, open_tcp(bound_endpoint(udp))
        except ListenError as error:
            udp.close()
            taken = isinstance(error.__context__, OSError) and error.__context__.errno == errno.EADDRINUSE
            if endpoint.port or not taken or attempt == _PORT_ZERO_TRIES - 1:
                raise
    raise AssertionError("the last attempt returns or raises")
