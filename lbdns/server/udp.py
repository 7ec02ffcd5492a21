"""DNS over UDP: a non-blocking socket that is drained whenever the loop finds it readable."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from lbdns.answering.respond import Responder
from lbdns.listening import bound_endpoint
from lbdns.server.durations import Durations
from lbdns.server.listen import IP_PKTINFO, WILDCARDS
from lbdns.server.mistakes import Mistakes

log = logging.getLogger("lbdns.server")

DRAIN: Final = 64  # queries a wake-up: then timers, reports and TCP have their turn
LAST_DRAINS: Final = 256  # a full receive buffer's worth, before a socket is closed
MAX_QUERY: Final = 4096  # bytes read of a datagram; no query is that long, and one that is gets FORMERR
_ANCILLARY: Final = 64  # bytes: room for one packet info of either family


class UdpServer:
    """Answers the queries of one socket."""

    def __init__(self, sock: socket.socket, responder: Responder, durations: Durations) -> None:
        self.sock = sock
        self.endpoint = bound_endpoint(sock)
        self.unsent = 0  # responses the kernel would not take
        self.mistakes = Mistakes()
        self._responder = responder
        self._durations = durations
        self._receive: Callable[[int], tuple[bytes, Any]] = sock.recvfrom
        self._send: Callable[[bytes, Any], object] = sock.sendto
        if self.endpoint.host in WILDCARDS:
            self._receive, self._send = self._receive_any, self._send_any
        self._reply_from = _from_ipv6 if sock.family == socket.AF_INET6 else _from_ipv4

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.add_reader(self.sock, self._drain)

    def stop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the socket; what was waiting in it is still answered, but not for ever what goes on coming."""
        loop.remove_reader(self.sock)
        for _ in range(LAST_DRAINS):
            if self._drain() < DRAIN:
                break
        self.sock.close()

    def _drain(self) -> int:
        """Answer what has arrived, at most DRAIN queries. How many it were."""
        receive, send, respond = self._receive, self._send, self._responder.respond
        begin = perf_counter()
        queries = 0
        try:
            while queries < DRAIN:
                query, client = receive(MAX_QUERY)
                response = respond(query)
                if response is not None:
                    try:
                        send(response, client)
                    except OSError:
                        self.unsent += 1
                queries += 1
        except BlockingIOError:
            pass
        except OSError as error:
            log.debug("%s: reading queries: %s", self.endpoint, error)
        except Exception:
            self.mistakes.report()
        if queries:
            self._durations.add(queries, perf_counter() - begin)
        return queries

    def _receive_any(self, size: int) -> tuple[bytes, Any]:
        """Read from a socket bound to every address: the client comes with the address that was asked."""
        query, info, _, client = self.sock.recvmsg(size, _ANCILLARY)
        return query, (self._reply_from(info), client)

    def _send_any(self, response: bytes, client: Any) -> None:
        info, address = client
        self.sock.sendmsg((response,), info, 0, address)


_Info = list[tuple[int, int, bytes]]


def _from_ipv4(info: _Info) -> _Info:
    """The ancillary data that sends from the address a datagram came to: its interface is left to the routes."""
    return [(level, kind, b"\0\0\0\0" + data[4:8] + b"\0\0\0\0") for level, kind, data in info if kind == IP_PKTINFO]


def _from_ipv6(info: _Info) -> _Info:
    """The same for IPv6, where a link-local address means nothing without its interface."""
    return [(level, kind, data) for level, kind, data in info if kind == socket.IPV6_PKTINFO]
