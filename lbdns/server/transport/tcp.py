"""DNS over TCP (RFC 7766): many queries per connection, limits on connections, and interleaved zone transfers."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections import Counter
from functools import partial
from time import perf_counter, time
from typing import Final, cast

from lbdns.answering.dns_constants import TCP
from lbdns.answering.relayed_query import RelayedQuery
from lbdns.answering.responder import Client, DeferredAnswer, Responder
from lbdns.answering.zone_transfer import TransferError, ZoneTransfer
from lbdns.counting.response_times import ResponseTimes
from lbdns.server.query_log.query_sampler import QueryLogTap, Respond, RunDeferred
from lbdns.server.transport.buffered_bytes import BufferedBytes
from lbdns.server.transport.connection_turns import ConnectionTurns
from lbdns.server.transport.error_counter import ErrorCounter
from lbdns.server.transport.transfer_queue import TransferQueue
from lbdns.sockets.acceptor import Acceptor
from lbdns.sockets.binding import bound_endpoint
from lbdns.sockets.client_network import client_network
from lbdns.sockets.dns_sockets import BACKLOG

log = logging.getLogger("lbdns.server")

IDLE: Final = 10.0  # s without a query (RFC 7766 section 6.2.3 suggests a few seconds)
PARTIAL: Final = 2.0  # s from the first byte of a message to its last
SLOW_READER: Final = 2.0  # s with a full send buffer
IN_LINE: Final = 60.0  # s that a zone transfer waits for others to end before its connection is closed
MAX_CONNECTIONS: Final = 1000
MAX_PER_NETWORK: Final = 100  # per IPv4 address or IPv6 /64 network
AT_ONCE: Final = 64  # queries of one connection before the next connection has its turn
READ_AT_ONCE: Final = 16_384  # bytes read from a connection before its queries are answered
WRITE_AT_ONCE: Final = 16_384  # bytes of responses, after which the next connection has its turn
UNREAD: Final = 16_384  # bytes of responses that wait for the client to read, after which its queries are not read
SLICE: Final = 0.0005  # s, after which the next connection has its turn even if fewer queries were answered
SPARED: Final = 1.0  # s without a query, after which a connection is closed if a new one needs its descriptor
SWEEP: Final = 0.5  # s between checks for connections past their deadline


class TcpServer:
    """Answers the queries received on one listening socket, from ``start`` to ``stop``."""

    def __init__(self, sock: socket.socket, responder: Responder, response_times: ResponseTimes) -> None:
        """The server takes ownership of ``sock``."""
        self.sock = sock
        self.endpoint = bound_endpoint(sock)
        self.responder = responder
        self.respond: Respond = responder.respond
        self.response_times = response_times
        self.errors = ErrorCounter()
        self.accepted = 0  # connections
        self.closed_early = 0  # connections closed by a limit
        self.connections: dict[_Connection, None] = {}  # in the order of their last query
        self._per_network: Counter[str] = Counter()
        self.transfers = TransferQueue()
        self.turns = ConnectionTurns()
        self.buffered = BufferedBytes()
        self.read_buffer = memoryview(bytearray(READ_AT_ONCE))  # shared: each connection keeps a copy of what it read
        self._acceptor = Acceptor(sock, str(self), self._make_room)
        self._connecting: set[asyncio.Task[None]] = set()  # accepted connections that still need a transport
        self._sweeper: asyncio.TimerHandle | None = None
        self.run_deferred: RunDeferred  # to be set before ``start``

    def __str__(self) -> str:
        return f"{self.endpoint} (TCP)"

    @property
    def reads(self) -> int:
        """Return the number of connections that have been accepted."""
        return self.accepted

    def fileno(self) -> int:
        return self.sock.fileno()

    def tap(self, tap: QueryLogTap | None) -> None:
        """Let ``tap`` sample queries for the query log; None stops sampling. Callers must also set ``run_deferred``."""
        self.respond = tap.respond if tap else self.responder.respond

    async def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self.sock.listen(BACKLOG)  # a service manager may have chosen another backlog
        self._acceptor.start(partial(self._accept, loop))
        self._sweep(loop)

    async def stop(self) -> None:
        """Close the socket and every connection. Responses that are already buffered are sent first."""
        if self._sweeper:
            self._sweeper.cancel()
        self._acceptor.close()
        self.sock.close()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        for connection in list(self.connections):
            connection.transport.close()

    def _accept(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        task = loop.create_task(self._connect(sock, loop))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, sock: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        try:
            await loop.connect_accepted_socket(lambda: _Connection(self, loop), sock)
        except OSError:
            sock.close()  # the client has already disconnected

    def _make_room(self) -> bool:
        """Close the connection that has been idle the longest, unless it has been idle for less than SPARED seconds.

        Return whether a connection was closed.
        """
        oldest = next(iter(self.connections), None)
        spared = oldest is not None and oldest.deadline <= asyncio.get_running_loop().time() + IDLE - SPARED
        if spared:
            self._close_oldest(None)
        return spared

    def opened(self, connection: _Connection) -> None:
        """Add a new connection.

        If the number of connections exceeds a limit, close the connection that has been idle the longest.
        """
        self.accepted += 1
        self.connections[connection] = None
        self._per_network[connection.network] += 1
        if self._per_network[connection.network] > MAX_PER_NETWORK:
            self._close_oldest(connection.network)
        elif len(self.connections) > MAX_CONNECTIONS:
            self._close_oldest(None)

    def closed(self, connection: _Connection) -> None:
        """Remove a connection if it has not been removed already."""
        if self.connections.pop(connection, self) is None:
            self._per_network[connection.network] -= 1
            if not self._per_network[connection.network]:
                del self._per_network[connection.network]
            self.buffered.update(connection)

    def used(self, connection: _Connection) -> None:
        """Record a query on a connection. The connection whose last query is oldest is the first to be closed."""
        if connection in self.connections:
            del self.connections[connection]
            self.connections[connection] = None

    def _close_oldest(self, network: str | None) -> None:
        for connection in self.connections:
            if network is None or connection.network == network:
                connection.close_early()
                return

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [c for c in self.connections if c.deadline <= now]:
            self.closed_early += connection.busy
            connection.transport.abort()
        self._sweeper = loop.call_later(SWEEP, self._sweep, loop)


class _Connection(asyncio.BufferedProtocol):
    """A client's connection, which is closed at ``deadline`` (loop time). Each query postpones the deadline."""

    def __init__(self, server: TcpServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._buffer = bytearray()
        self._full = False  # the send buffer is full: the client does not read
        self._scheduled = False  # a later event continues with the buffer
        self._left = 0.0  # s that the client still had when its wait for a turn began: the wait does not count
        self._ended = False  # the client has closed its side
        self._owed = 0  # responses that wait for an upstream; each arrives before the connection is idle for too long
        self._transfer: ZoneTransfer | None = None  # being sent; later queries wait for its end
        self.deadline = loop.time() + IDLE
        self.client: Client = ("", 0)
        self.network = ""

    @property
    def address(self) -> str:
        return str(self.client[0])

    @property
    def buffered(self) -> int:
        """The number of bytes of queries and responses that this process has buffered for the connection."""
        return len(self._buffer) + self.transport.get_write_buffer_size()

    def close_early(self) -> None:
        """Close the connection because of a limit."""
        self._server.closed_early += 1
        self.transport.abort()
        self._buffer.clear()
        self._server.closed(self)

    @property
    def busy(self) -> bool:
        """Return whether the client has sent only part of a message, or is not reading its responses."""
        return bool(self._buffer) or self._full

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=UNREAD)
        self.client = transport.get_extra_info("peername") or ("0.0.0.0", 0)  # None: the client has gone already
        self.network = client_network(self.address)
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._buffer.clear()
        self._server.closed(self)
        self._end_transfer()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._server.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self._buffer:
            self.deadline = self._loop.time() + PARTIAL
        self._buffer += self._server.read_buffer[:nbytes]
        if not self._scheduled:
            self._take_turn()
        self._server.buffered.update(self)

    def eof_received(self) -> bool:
        """Keep a half-closed connection open until the queries received on it have been answered."""
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
            self._server.transfers.resume(self)
        else:
            self._continue()

    def _continue(self) -> None:
        self._scheduled = False
        if not self.transport.is_closing():
            self._take_turn()

    def _take_turn(self) -> None:
        """Answer the buffered messages immediately, or after the turns of other connections that are waiting."""
        if self._server.turns.are_free:
            self._answer()
        else:
            self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        self._scheduled = True
        self.transport.pause_reading()
        self._left, self.deadline = self.deadline - self._loop.time(), math.inf
        self._server.turns.wait(self._have_turn)

    def _have_turn(self) -> None:
        self._scheduled = False
        self.deadline = self._loop.time() + self._left
        if not self.transport.is_closing():
            self._answer()

    def _answer(self) -> None:
        """Answer at most AT_ONCE messages from the buffer, and then let other connections take their turns."""
        buffer, begin, at, queries, more = self._buffer, perf_counter(), 0, 0, False
        responses: list[bytes] = []
        size = 0
        self._server.responder.tick(self._loop.time(), time())
        while not self._full and not self._transfer and len(buffer) - at >= 2:
            if more := queries >= AT_ONCE or size >= WRITE_AT_ONCE or (queries > 0 and perf_counter() - begin > SLICE):
                break
            end = at + 2 + (buffer[at] << 8 | buffer[at + 1])
            if end > len(buffer):
                break
            response = self._respond(bytes(buffer[at + 2 : end]))
            if isinstance(response, bytes):
                responses += (len(response).to_bytes(2, "big"), response)
                size += len(response)
            elif isinstance(response, RelayedQuery):
                self._owed += 1
                self._server.run_deferred(response, self._reply_deferred)
            elif response is not None:
                self._transfer = response
            at, queries = end, queries + 1
        if queries:
            del buffer[:at]
            self._server.used(self)
            self._server.response_times.add(queries, perf_counter() - begin)
            self.deadline = self._loop.time() + (PARTIAL if buffer else IDLE)
        if responses:
            self.transport.write(b"".join(responses))
            self._server.buffered.update(self)
        self._server.turns.spend(perf_counter() - begin)
        if self._transfer:
            self._scheduled = True  # continued by the end of the transfer
            self.transport.pause_reading()
            self.deadline = self._loop.time() + IN_LINE
            self._server.transfers.begin(self)
        else:
            self._finish_turn(more)

    def send_one(self) -> bool:
        """Send the next message of the transfer. Return whether another message can be sent immediately."""
        if self._transfer is None or self._full or self.transport.is_closing():
            return False
        self.deadline = self._loop.time() + IDLE
        self._server.responder.tick(self._loop.time(), time())
        zone = self._transfer.zone or "."
        try:
            message = next(self._transfer.messages, None)
        except TransferError as error:
            log.warning("zone %s: the transfer to %s failed: %s", zone, self.address, error)
            return self._continue_after_transfer()
        except Exception:
            self._server.errors.report()
            self.transport.abort()  # so that the client does not mistake this for the end
            return False
        if message is None:
            log.info("zone %s: transferred to %s", zone, self.address)
            return self._continue_after_transfer()
        self._reply(message)
        self._server.used(self)
        return True

    def _continue_after_transfer(self) -> bool:
        """Answer the queries that waited for the end of the transfer.

        Return False, because no message is left to send.
        """
        self._end_transfer()
        self._continue()
        return False

    def _end_transfer(self) -> None:
        if self._transfer is not None:
            self._transfer = None
            self._server.transfers.end(self)

    def _respond(self, query: bytes) -> bytes | DeferredAnswer | None:
        try:
            return self._server.respond(query, self.client, TCP)
        except Exception:
            self._server.errors.report()
            return None

    def _reply(self, response: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(len(response).to_bytes(2, "big") + response)
            self._server.buffered.update(self)

    def _reply_deferred(self, response: bytes) -> None:
        """Send a deferred response. Responses may be sent out of order (RFC 7766 section 6.2.1.1)."""
        self._owed -= 1
        self._reply(response)
        if not self.busy:
            self.deadline = self._loop.time() + IDLE
        if self._ended and not self._owed and not self._scheduled:
            self.transport.close()

    def _finish_turn(self, more: bool) -> None:
        if self._full:
            self._scheduled = True  # continued by resume_writing
        elif more:
            self._wait_for_turn()
        elif self._ended:
            if not self._owed:
                self.transport.close()
        else:
            self.transport.resume_reading()
