"""DNS over TCP (RFC 7766): many queries a connection, answered as they come, with limits that protect UDP."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable
from time import perf_counter, time
from typing import Final, cast

from lbdns.answering.entry import TCP
from lbdns.answering.errand import Errand, Relay, Transfer
from lbdns.answering.respond import Client, Responder
from lbdns.listening import bound_endpoint
from lbdns.server.net.durations import Durations
from lbdns.server.net.listen import BACKLOG
from lbdns.server.net.mistakes import Mistakes
from lbdns.server.net.query_watch import Respond, Watch
from lbdns.server.net.sending import Queue

log = logging.getLogger("lbdns.server")

IDLE: Final = 10.0  # s without a query (RFC 7766 section 6.2.3 suggests seconds)
PARTIAL: Final = 2.0  # s from the beginning of a message to its end
SLOW_READER: Final = 2.0  # s with a full send buffer
IN_LINE: Final = 60.0  # s that a zone transfer waits for others to end; then the client may as well ask again
MAX_CONNECTIONS: Final = 1000
MAX_PER_ADDRESS: Final = 100
AT_ONCE: Final = 64  # queries of one connection before others have their turn
SWEEP: Final = 0.5  # s between looks for connections whose time is over


class TcpServer:
    """Answers the queries of one listening socket."""

    def __init__(self, sock: socket.socket, responder: Responder, durations: Durations) -> None:
        self.sock = sock
        self.endpoint = bound_endpoint(sock)
        self.responder = responder
        self.respond: Respond = responder.respond
        self.durations = durations
        self.mistakes = Mistakes()
        self.accepted = 0  # connections
        self.closed_early = 0  # connections closed by a limit
        self.connections: dict[_Connection, None] = {}  # in the order of their last query
        self._per_address: Counter[str] = Counter()
        self.transfers = Queue()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        #: Whoever runs errands: gets the errand and what sends the response.
        self.run_errand: Callable[[Errand, Callable[[bytes], None]], None] = _nobody

    def watch_by(self, watch: Watch | None) -> None:
        """Have ``watch`` take queries for the query log; None: nobody. Errands are run by it then, too."""
        self.respond = watch.respond if watch else self.responder.respond

    async def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._server = await loop.create_server(lambda: _Connection(self, loop), sock=self.sock, backlog=BACKLOG)
        self._sweep(loop)

    async def stop(self) -> None:
        """Close the socket and every connection; responses that are written are still sent."""
        if self._sweeper:
            self._sweeper.cancel()
        if self._server:
            self._server.close()
        for connection in list(self.connections):
            connection.transport.close()

    def opened(self, connection: _Connection) -> None:
        """A new connection; at a limit the one that has been idle longest makes room."""
        self.accepted += 1
        self.connections[connection] = None
        self._per_address[connection.address] += 1
        if self._per_address[connection.address] > MAX_PER_ADDRESS:
            self._close_oldest(connection.address)
        elif len(self.connections) > MAX_CONNECTIONS:
            self._close_oldest(None)

    def closed(self, connection: _Connection) -> None:
        if self.connections.pop(connection, self) is None:
            self._per_address[connection.address] -= 1
            if not self._per_address[connection.address]:
                del self._per_address[connection.address]

    def used(self, connection: _Connection) -> None:
        """Move a connection to the end of the queue of those that are closed for room."""
        if connection in self.connections:
            del self.connections[connection]
            self.connections[connection] = None

    def _close_oldest(self, address: str | None) -> None:
        for connection in self.connections:
            if address is None or connection.address == address:
                self.closed_early += 1
                connection.transport.abort()
                self.closed(connection)
                return

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [c for c in self.connections if c.deadline <= now]:
            self.closed_early += connection.busy
            connection.transport.abort()
        self._sweeper = loop.call_later(SWEEP, self._sweep, loop)


def _nobody(errand: Errand, reply: Callable[[bytes], None]) -> None:
    """Without anybody who runs errands the client hears nothing."""


class _Connection(asyncio.Protocol):
    """One client. ``deadline`` is when it is closed unless something happens, on the loop's clock."""

    def __init__(self, server: TcpServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._buffer = bytearray()
        self._full = False  # the client does not read what we send
        self._scheduled = False
        self._ended = False  # the client sends no more
        self._owed = 0  # responses that others are working on; each comes before the connection is idle for too long
        self._transfer: Transfer | None = None  # being sent; what was asked after it waits
        self.deadline = loop.time() + IDLE
        self.client: Client = ("", 0)

    @property
    def address(self) -> str:
        return str(self.client[0])

    @property
    def busy(self) -> bool:
        """Whether it is in the middle of something: a message half sent, or answers not read."""
        return bool(self._buffer) or self._full

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.client = transport.get_extra_info("peername") or ("0.0.0.0", 0)  # gone already: nobody hears the answer
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._buffer.clear()
        self._server.closed(self)
        self._end_transfer()

    def data_received(self, data: bytes) -> None:
        if not self._buffer:
            self.deadline = self._loop.time() + PARTIAL
        self._buffer += data
        if not self._scheduled:
            self._answer()

    def eof_received(self) -> bool:
        """Half-closed: what was asked is answered before the connection ends."""
        self._ended = True
        return self._scheduled or bool(self._owed)

    def pause_writing(self) -> None:
        self._full = True
        self.transport.pause_reading()
        self.deadline = self._loop.time() + (IDLE if self._transfer else SLOW_READER)

    def resume_writing(self) -> None:
        self._full = False
        self.deadline = self._loop.time() + IDLE
        if self._transfer:
            self._server.transfers.go_on(self)
        else:
            self._continue()

    def _continue(self) -> None:
        self._scheduled = False
        if not self.transport.is_closing():
            self._answer()

    def _answer(self) -> None:
        """Answer the whole messages in the buffer, at most AT_ONCE; the rest has its turn after everybody else."""
        buffer, begin, at, queries = self._buffer, perf_counter(), 0, 0
        responses: list[bytes] = []
        self._server.responder.tick(self._loop.time(), time())
        while queries < AT_ONCE and not self._full and not self._transfer and len(buffer) - at >= 2:
            end = at + 2 + (buffer[at] << 8 | buffer[at + 1])
            if end > len(buffer):
                break
            response = self._respond(bytes(buffer[at + 2 : end]))
            if isinstance(response, bytes):
                responses += (len(response).to_bytes(2, "big"), response)
            elif isinstance(response, Relay):
                self._owed += 1
                self._server.run_errand(response, self._pay)
            elif response is not None:
                self._transfer = response
            at, queries = end, queries + 1
        if queries:
            del buffer[:at]
            self._server.used(self)
            self._server.durations.add(queries, perf_counter() - begin)
            self.deadline = self._loop.time() + (PARTIAL if buffer else IDLE)
        if responses:
            self.transport.write(b"".join(responses))
        if self._transfer:
            self._begin_transfer()
        else:
            self._go_on(more=queries == AT_ONCE)

    def _begin_transfer(self) -> None:
        self._scheduled = True  # the end of the transfer goes on
        self.transport.pause_reading()
        self.deadline = self._loop.time() + IN_LINE
        self._server.transfers.begin(self)

    def send_one(self) -> bool:
        """Send the next message of the transfer; whether there may be another at once."""
        if self._transfer is None or self._full or self.transport.is_closing():
            return False
        self.deadline = self._loop.time() + IDLE
        self._server.responder.tick(self._loop.time(), time())
        try:
            message = next(self._transfer.messages, None)
        except Exception:
            self._server.mistakes.report()
            self.transport.abort()  # so that the client sees that this is not the end
            return False
        if message is None:
            log.info("zone %s: transferred to %s", self._transfer.zone or ".", self.address)
            self._end_transfer()
            self._continue()
            return False
        self._reply(message)
        self._server.used(self)
        return True

    def _end_transfer(self) -> None:
        if self._transfer is not None:
            self._transfer = None
            self._server.transfers.end(self)

    def _respond(self, query: bytes) -> bytes | Errand | None:
        try:
            return self._server.respond(query, self.client, TCP)
        except Exception:
            self._server.mistakes.report()
            return None

    def _reply(self, response: bytes) -> None:
        """Send a response that took its time, if the client is still there."""
        if not self.transport.is_closing():
            self.transport.write(len(response).to_bytes(2, "big") + response)

    def _pay(self, response: bytes) -> None:
        """Send a response that is owed; they go out as they are ready (RFC 7766 section 6.2.1.1)."""
        self._owed -= 1
        self._reply(response)
        if not self.busy:
            self.deadline = self._loop.time() + IDLE
        if self._ended and not self._owed and not self._scheduled:
            self.transport.close()

    def _go_on(self, more: bool) -> None:
        if self._full:
            self._scheduled = True  # resume_writing goes on
        elif more:
            self._scheduled = True
            self.transport.pause_reading()
            self._loop.call_soon(self._continue)
        elif self._ended:
            if not self._owed:
                self.transport.close()
        else:
            self.transport.resume_reading()
