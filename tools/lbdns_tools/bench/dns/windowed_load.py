"""Sends queries with a limited number in flight from each port, so that only the server can lose queries."""

from __future__ import annotations

import select
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from lbdns.sockets.binding import enlarge, overflows
from lbdns_tools.bench.dns.latency_prober import query_wire

PORTS: Final = 32  # of the client; the kernel distributes them among the workers' sockets
WINDOW: Final = 8  # queries in flight from each port
BEHIND: Final = 0.1  # seconds; after a pause, clients make up for no more than the queries of this time
GIVE_UP: Final = 10.0  # seconds without an answer after which a query is lost; a busy server may take several
_RECEIVE_BUFFER: Final = 4 * 1024 * 1024  # bytes for each port; after a restart, many answers arrive at once
QUERY: Final = query_wire("round.robin.bench", edns=False)
_NO_ANSWER_RECORDS: Final = b"\0\0"  # their number in the header, for example that of a truncated response


@dataclass
class QueryTally:
    """The numbers of queries sent, answered and lost, and of unexpected datagrams."""

    sent: int = 0
    answered: int = 0
    lost: int = 0
    unexpected: int = 0  # datagrams other than an answer with a record to a query in flight
    overflows: int = 0  # datagrams that the receive buffers of the client's own ports had no room for
    longest: float = 0.0  # seconds from a query to its answer
    seconds: float = 0.0
    disruptions: list[str] = field(default_factory=list)  # a description of each disruption


class WindowedLoad:
    """Sends at least ``queries`` queries, continues while ``goes_on`` is set, and then awaits the last answers."""

    def __init__(
        self, port: int, queries: int, rate: float, window: int = WINDOW, give_up: float = GIVE_UP,
        query: bytes = QUERY, host: str = "127.0.0.1",
    ) -> None:  # fmt: skip
        """``host`` is the server's address. ``rate`` is in queries/s; if it is 0, each answer triggers the next query.

        ``window`` is the number of queries in flight from each client port. A query is lost if no answer arrives within
        ``give_up`` seconds. The first two bytes of ``query`` are replaced by a number.
        """
        self.tally = QueryTally()
        self.goes_on = threading.Event()
        self._queries, self._rate, self._window, self._give_up = queries, rate, window, give_up
        self._query = query[2:]
        self._paused = 0.0  # seconds for which no query could be sent
        self._sockets: dict[int, socket.socket] = {}  # by descriptor
        for _ in range(PORTS):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.setblocking(False)
            enlarge(sock, _RECEIVE_BUFFER)
            sock.connect((host, port))
            self._sockets[sock.fileno()] = sock
        self._in_flight: dict[int, dict[bytes, float]] = {descriptor: {} for descriptor in self._sockets}

    def run(self) -> QueryTally:
        began = time.monotonic()
        poll = select.poll()
        for descriptor in self._sockets:
            poll.register(descriptor, select.POLLIN)
        swept = began
        while self._has_more() or any(self._in_flight.values()):
            now = time.monotonic()
            elapsed = self._sending_time(now - began)
            for descriptor in self._sockets:
                self._send(descriptor, now, elapsed)
            for descriptor, _ in poll.poll(5):
                self._receive(descriptor)
            if now - swept > self._give_up / 10:
                swept = now
                self._sweep(now)
        self.tally.seconds = time.monotonic() - began
        for sock in self._sockets.values():
            self.tally.overflows += overflows(sock)
            sock.close()
        return self.tally

    def _sending_time(self, elapsed: float) -> float:
        """Return the number of seconds for which queries were sent: the ``elapsed`` seconds since the start, without
        pauses.

        If pauses counted, each pause would be followed by a burst of the missed queries, which would exceed the
        server's rate limit.
        """
        if self._rate:
            self._paused = max(self._paused, elapsed - self.tally.sent / self._rate - BEHIND)
        return elapsed - self._paused

    def _has_more(self) -> bool:
        return self.tally.sent < self._queries or self.goes_on.is_set()

    def _send(self, descriptor: int, now: float, elapsed: float) -> None:
        tally, in_flight, sock = self.tally, self._in_flight[descriptor], self._sockets[descriptor]
        while len(in_flight) < self._window and self._has_more():
            if self._rate and tally.sent > self._rate * elapsed:
                return
            number = (tally.sent + 1 & 0xFFFF).to_bytes(2, "big")
            try:
                sock.send(number + self._query)
            except BlockingIOError:
                return  # the port's send buffer is full: the query has not been sent
            except OSError:
                tally.lost += 1  # refused: no socket is bound to the port
                tally.sent += 1
                continue
            tally.sent += 1
            in_flight[number] = now

    def _receive(self, descriptor: int) -> None:
        tally, in_flight, sock = self.tally, self._in_flight[descriptor], self._sockets[descriptor]
        with suppress(OSError):
            while True:
                answer = sock.recv(512)
                sent = in_flight.pop(answer[:2], None)
                if sent is None or answer[3] & 15 or answer[6:8] == _NO_ANSWER_RECORDS:
                    tally.unexpected += 1
                else:
                    tally.answered += 1
                    tally.longest = max(tally.longest, time.monotonic() - sent)

    def _sweep(self, now: float) -> None:
        for in_flight in self._in_flight.values():
            for number in [number for number, sent in in_flight.items() if now - sent > self._give_up]:
                del in_flight[number]
                self.tally.lost += 1
