"""DNS over UDP: reads and answers queries when the event loop reports that a socket is readable."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from functools import partial
from time import monotonic, perf_counter, time
from typing import Final

from lbdns.answering.responder import Client, Responder
from lbdns.counting.response_times import ResponseTimes
from lbdns.server.query_log.query_sampler import QueryLogTap, Respond, RunDeferred
from lbdns.server.transport.error_counter import ErrorCounter
from lbdns.server.transport.load_shedding import LoadShedder
from lbdns.sockets.binding import bound_endpoint, overflows
from lbdns.sockets.dns_sockets import IP_PKTINFO, WILDCARDS

log = logging.getLogger("lbdns.server")

DRAIN: Final = 64  # queries per wake-up: then timers, reports and TCP have their turn
LAST_DRAINS: Final = 256  # wake-ups' worth of queries to answer before a socket is closed: a full receive buffer
MAX_QUERY: Final = 4096  # bytes read from a datagram; real queries are shorter, and a longer one gets FORMERR
_ANCILLARY: Final = 64  # bytes: room for one packet info of either family
_Info = list[tuple[int, int, bytes]]


class UdpServer:
    """Answers the queries received on one socket, from ``start`` to ``stop``."""

    def __init__(self, sock: socket.socket, responder: Responder, response_times: ResponseTimes) -> None:
        """The server takes ownership of ``sock``."""
        self.sock = sock
        self.endpoint = bound_endpoint(sock)
        self._reads = 0  # wake-ups
        self._unsent = 0  # responses that the kernel refused
        self._overflows = -overflows(sock)  # since this server took the socket over
        self._closed = False
        self.errors = ErrorCounter()
        self.shedder = LoadShedder()
        self._responder = responder
        self._respond: Respond = responder.respond
        self._tap: QueryLogTap | None = None
        self._response_times = response_times
        # Chosen here, because every readable event calls it
        self._answer_waiting = self._answer_any if self.endpoint.host in WILDCARDS else self._answer_one
        self._reply_from = _from_ipv6 if sock.family == socket.AF_INET6 else _from_ipv4
        self.run_deferred: RunDeferred  # to be set before ``start``

    def tap(self, tap: QueryLogTap | None) -> None:
        """Let ``tap`` sample queries for the query log; None stops sampling. Callers must also set ``run_deferred``."""
        self._tap = tap
        self._respond = tap.respond if tap else self._responder.respond

    def __str__(self) -> str:
        return f"{self.endpoint} (UDP)"

    def fileno(self) -> int:
        return self.sock.fileno()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.add_reader(self.sock, self._drain)

    def stop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer the waiting queries, but no more than the receive buffer can hold, and close the socket."""
        loop.remove_reader(self.sock)
        for _ in range(LAST_DRAINS):
            if self._drain() < DRAIN:
                break
        self._close()

    def _close(self) -> None:
        self._overflows, self._closed = self.overflows, True
        self.sock.close()

    def counters(self) -> Counter[str]:
        """Return the counters since the start, keyed by name."""
        return Counter(
            failed=self.errors.count, unsent=self.unsent, shed=self.shedder.shed, udp_overflows=self.overflows
        )

    @property
    def reads(self) -> int:
        """Return the number of times that the server has read from the socket."""
        return self._reads

    @property
    def unsent(self) -> int:
        """Return the number of responses that the kernel refused."""
        return self._unsent

    @property
    def overflows(self) -> int:
        """Return the number of queries that the kernel dropped because the receive buffer was full."""
        return self._overflows if self._closed else self._overflows + overflows(self.sock)

    def _drain(self) -> int:
        """Read and answer up to DRAIN queries, and return how many were read.

        Larger batches would delay other work.
        """
        begin, now = perf_counter(), monotonic()
        self._reads += 1
        responder = self._responder
        responder.tick(now, time())
        responder.sheds = self.shedder.sheds if now < self.shedder.until else None
        queries = self._answer_waiting()
        if queries:
            self._response_times.add(queries, perf_counter() - begin)
        self._note_load(queries < DRAIN, now)
        return queries

    def _note_load(self, emptied: bool, now: float) -> None:
        self.shedder.note(emptied, now)

    def _answer_one(self) -> int:
        receive, send, respond = self.sock.recvfrom, self.sock.sendto, self._respond
        for queries in range(DRAIN):
            try:
                query, client = receive(MAX_QUERY)
            except OSError as error:
                return queries if isinstance(error, BlockingIOError) else self._unread(error, queries)
            try:
                response = respond(query, client)
                if isinstance(response, bytes):
                    send(response, client)
                elif response is not None:
                    self.run_deferred(response, partial(self._reply, client, None))
            except OSError:
                self._unsent += 1
            except Exception:
                self.errors.report()
        return DRAIN

    def _answer_any(self) -> int:
        """Answer queries on a socket bound to a wildcard address; send each response from the queried address."""
        receive, send, respond = self.sock.recvmsg, self.sock.sendmsg, self._respond
        for queries in range(DRAIN):
            try:
                query, info, _, client = receive(MAX_QUERY, _ANCILLARY)
            except OSError as error:
                return queries if isinstance(error, BlockingIOError) else self._unread(error, queries)
            try:
                response = respond(query, client)
                if isinstance(response, bytes):
                    send((response,), self._reply_from(info), 0, client)
                elif response is not None:
                    self.run_deferred(response, partial(self._reply, client, self._reply_from(info)))
            except OSError:
                self._unsent += 1
            except Exception:
                self.errors.report()
        return DRAIN

    def _unread(self, error: OSError, queries: int) -> int:
        log.debug("%s: receiving queries failed: %s", self.endpoint, error)
        return queries

    def _reply(self, client: Client, info: _Info | None, response: bytes) -> None:
        try:
            if info is None:
                self.sock.sendto(response, client)
            else:
                self.sock.sendmsg((response,), info, 0, client)
        except OSError:
            self._unsent += 1


def _from_ipv4(info: _Info) -> _Info:
    """Return ancillary data that makes the queried address the response's source; routing selects the interface."""
    return [(level, kind, b"\0\0\0\0" + data[4:8] + b"\0\0\0\0") for level, kind, data in info if kind == IP_PKTINFO]


def _from_ipv6(info: _Info) -> _Info:
    """Return the ancillary data for IPv6, with the interface, because a link-local address alone is ambiguous."""
    return [(level, kind, data) for level, kind, data in info if kind == socket.IPV6_PKTINFO]
