"""A gated connection: reads one request head at a time, and passes it to aiohttp when the client's turn comes.

A connection without a complete request head never reaches aiohttp, and costs only a socket and a few kilobytes of
memory. If the server has a certificate, a connection begins with a TLS handshake, which waits for its own turn.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Callable
from typing import Final, cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from lbdns_collector.web.connection_limits import ConnectionLimits, WebClient
from lbdns_collector.web.refusal import Refusal
from lbdns_collector.web.render_scheduler import RenderLane
from lbdns_collector.web.request_heads import MAX_HEAD, PROBES, HeadTooLongError, NotHttpError, RequestHeads, path_of
from lbdns_collector.web.tls_handshake import HANDSHAKE_RECORD, perform_handshake

HEAD_WITHIN: Final = 5.0  # seconds to send a head, from connecting or from the head's first byte
IDLE_WITHIN: Final = 20.0  # seconds from a response to the next head; Prometheus scrapes every 15 s by default
ADMIT_WITHIN: Final = 5.0  # seconds until a request in aiohttp must reach a handler; aiohttp answers a few by itself
READ_WITHIN: Final = 20.0  # seconds to read a full write buffer (64 kB) until it is nearly empty
CLOSE_WITHIN: Final = 5.0  # seconds to send the rest of the last response
UNSENT_CHECK_PERIOD: Final = 0.05  # seconds between two checks whether a response has been sent


class GatedConnection(asyncio.Protocol):
    """A client's connection, which is either waiting for a request head or busy with one request."""

    def __init__(
        self, limits: ConnectionLimits, client: WebClient, address: str, new_handler: Callable[[], RequestHandler]
    ) -> None:
        self.client, self.address = client, address
        self._tls: ssl.SSLContext | None = limits.access.tls
        self._awaits_handshake = self._tls is not None
        self._shaking_hands = False
        self.deadline = asyncio.get_running_loop().time() + HEAD_WITHIN  # loop time
        self.busy = False
        self.when_lost: Callable[[], None] | None = None  # called when the client has disconnected
        self._limits = limits
        self._new_handler = new_handler
        self._handler: RequestHandler | None = None
        self._transport: asyncio.Transport | None = None
        self._socket_transport: asyncio.Transport | None = None  # below TLS; otherwise the same as _transport
        self._heads = RequestHeads()
        self._ended = False  # the client sends no more
        self._closing = False  # the transport closes once the client has read everything
        self._discarding = False
        self._is_answered = False  # only the end of the response to the current request is still unsent
        self._serving: asyncio.Task[None] | None = None
        self._settling: asyncio.TimerHandle | None = None

    @property
    def is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def is_private(self) -> bool:
        """Whether this connection is safe from eavesdropping and tampering, because it is local or uses TLS."""
        return self.client.is_local or (self._tls is not None and not self._awaits_handshake)

    @property
    def unsent(self) -> int:
        """The number of bytes waiting in the write buffers."""
        parts = {part for part in (self._transport, self._socket_transport) if part is not None}
        return sum(part.get_write_buffer_size() for part in parts)

    def abort(self) -> None:
        """Close the connection immediately; unsent bytes are lost."""
        if self._socket_transport is not None:
            self._socket_transport.abort()

    def check_deadline(self, now: float) -> None:
        """Close the connection if its deadline has passed."""
        if self.is_closing and not self._closing:
            self._closing, self.deadline = True, now + CLOSE_WITHIN
        if now < self.deadline:
            return
        if not self.busy and len(self._heads) and not self.is_closing:
            self._refuse(Refusal("slow", 408, f"the complete request must arrive within {HEAD_WITHIN:g} s"))
        else:
            self.abort()

    def admitted(self) -> None:
        """Record that the current request has reached a handler. Handlers have no deadline."""
        if not (self._ended or self.is_closing):
            self.deadline = math.inf

    def discard_body(self) -> None:
        """Discard the body of the current request. After the response, the connection closes."""
        self._discarding = True

    def finished(self) -> None:
        """Record that the response to the current request is about to be written. The next head may be read after that
        response."""
        self._is_answered = True
        self.deadline = min(self.deadline, asyncio.get_running_loop().time() + READ_WITHIN)
        self._later(0.0)

    # The methods of asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._socket_transport = cast(asyncio.Transport, transport)
        self._limits.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:  # asyncio reports some failed handshakes a second time
            return
        self._limits.closed(self)
        self._transport = self._socket_transport = None
        if self._settling:
            self._settling.cancel()
        if self._serving:
            self._serving.cancel()
        if self._handler:
            self._handler.connection_lost(exc)
        if self.when_lost:
            self.when_lost()

    def data_received(self, data: bytes) -> None:
        if self._discarding:
            return
        if self._awaits_handshake and not self._shaking_hands:
            self._begin_handshake(data)
            return
        if not len(self._heads) and not self.busy:
            self.deadline = min(self.deadline, asyncio.get_running_loop().time() + HEAD_WITHIN)
        self._heads.feed(data)
        self._advance()

    def eof_received(self) -> bool:
        """Return True if the connection must stay open, because the client still waits for a response."""
        self._ended = True
        self.deadline = min(self.deadline, asyncio.get_running_loop().time() + CLOSE_WITHIN)
        return self.busy and self._tls is None  # TLS has no half-closed connections

    def pause_writing(self) -> None:
        self.deadline = asyncio.get_running_loop().time() + READ_WITHIN
        if self._handler:
            self._handler.pause_writing()

    def resume_writing(self) -> None:
        if self.busy and not (self._ended or self._is_answered):
            self.deadline = math.inf
        if self._handler:
            self._handler.resume_writing()

    def _begin_handshake(self, data: bytes) -> None:
        """Begin the TLS handshake with the first bytes that the client has sent."""
        assert self._transport is not None
        if data[0] != HANDSHAKE_RECORD:
            self._refuse(Refusal("malformed", 400, "this port accepts only HTTPS; write https:// in the URL"))
            return
        self._shaking_hands = True
        self._transport.pause_reading()
        self.deadline = math.inf  # the wait for the turn is not the client's fault
        self._serving = asyncio.get_running_loop().create_task(self._shake_hands(data))

    async def _shake_hands(self, received: bytes) -> None:
        await self._limits.turn(self.client, "handshake")
        if self._transport is None or self._transport.is_closing():
            return
        assert self._tls is not None
        self._serving = None  # from now on, the handshake itself reports a lost connection, with the reason
        self.deadline = asyncio.get_running_loop().time() + HEAD_WITHIN
        try:
            self._transport = await perform_handshake(
                self._transport, self, self._tls, received, HEAD_WITHIN, CLOSE_WITHIN
            )
        except OSError as error:
            if isinstance(error, ssl.SSLError):
                self._limits.access.refuse("handshake", self.address, str(error.reason))
            elif isinstance(error, ConnectionAbortedError):  # asyncio's error for a timeout
                self._limits.access.refuse("slow", self.address)
            self.connection_lost(error)
            return
        self._awaits_handshake = False
        self._advance()

    def _advance(self) -> None:
        """Start the next request if its head is complete and no other request is in progress."""
        if self._transport is None or self._transport.is_closing() or self._awaits_handshake:
            return
        if self.busy:
            if len(self._heads) > MAX_HEAD and self._transport.is_reading():
                self._transport.pause_reading()
            return
        try:
            head = self._heads.next()
        except NotHttpError:
            what = "the data is not an HTTP request" if self._tls else "this port accepts only HTTP, not HTTPS"
            self._refuse(Refusal("malformed", 400, what))
        except HeadTooLongError:
            self._refuse(Refusal("malformed", 431, f"the request head must not be longer than {MAX_HEAD} bytes"))
        else:
            if head is not None:
                self._begin(head)
            elif self._ended:
                self._transport.close()

    def _begin(self, head: bytes) -> None:
        lane: RenderLane = "health" if path_of(head) in PROBES else "request"
        if refusal := self._limits.refusal(self, lane):
            self._refuse(refusal)
            return
        self._is_answered = False
        self.busy, self.deadline = True, math.inf  # the number of requests waiting for their turn is limited
        self._limits.began(self)
        self._serving = asyncio.get_running_loop().create_task(self._serve(head, lane))

    async def _serve(self, head: bytes, lane: RenderLane) -> None:
        await self._limits.turn(self.client, lane)
        if self._transport is None or self._transport.is_closing():
            return
        if self._handler is None:
            self._handler = self._new_handler()
            self._handler.connection_made(self._transport)
        # Such requests must not keep their places: aiohttp waits for more after "PRI * HTTP/2.0", for example
        self.deadline = min(self.deadline, asyncio.get_running_loop().time() + ADMIT_WITHIN)
        self._handler.data_received(head)

    def _refuse(self, refusal: Refusal) -> None:
        assert self._transport is not None
        self._limits.access.refuse(refusal.reason, self.address)
        self._transport.write(refusal.response())
        self._transport.close()

    def _later(self, seconds: float) -> None:
        self._settling = asyncio.get_running_loop().call_later(seconds, self._settle)

    def _settle(self) -> None:
        """After the response has been sent, wait for the next request head."""
        if self._transport is None or self._transport.is_closing() or self._discarding:
            return
        if self.unsent:
            self._later(UNSENT_CHECK_PERIOD)
            return
        within = HEAD_WITHIN if len(self._heads) else IDLE_WITHIN
        self.busy, self.deadline = False, asyncio.get_running_loop().time() + within
        self._limits.ended(self)
        if not self._transport.is_reading():
            self._transport.resume_reading()
        self._advance()


def connection_of(request: web.Request) -> GatedConnection:
    """Return the connection on which a request arrived. Raises ConnectionResetError if the client has disconnected."""
    connection = request.transport.get_protocol() if request.transport else None
    if not isinstance(connection, GatedConnection):
        raise ConnectionResetError("the client has disconnected")
    return connection
