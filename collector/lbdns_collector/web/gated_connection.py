"""A gated connection: reads one request head at a time, and passes it to aiohttp when the client's turn comes.

A connection without a complete request head never reaches aiohttp, and costs only a socket and a few kilobytes of
memory.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final, cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from lbdns_collector.web.connection_limits import ConnectionLimits, WebClient
from lbdns_collector.web.http_responses import Refusal
from lbdns_collector.web.render_scheduler import RenderLane
from lbdns_collector.web.request_heads import MAX_HEAD, PROBES, HeadTooLongError, NotHttpError, RequestHeads, path_of

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
        self.deadline = asyncio.get_running_loop().time() + HEAD_WITHIN  # loop time
        self.busy = False
        self.when_lost: Callable[[], None] | None = None  # called when the client has disconnected
        self._limits = limits
        self._new_handler = new_handler
        self._handler: RequestHandler | None = None
        self._transport: asyncio.Transport | None = None
        self._heads = RequestHeads()
        self._ended = False  # the client sends no more
        self._closing = False  # the transport closes once the client has read everything
        self._discarding = False
        self._serving: asyncio.Task[None] | None = None
        self._settling: asyncio.TimerHandle | None = None

    @property
    def is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def abort(self) -> None:
        """Close the connection immediately; unsent bytes are lost."""
        if self._transport is not None:
            self._transport.abort()

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
        """Record that the current request has reached a handler, which has no deadline."""
        if not (self._ended or self.is_closing):
            self.deadline = math.inf

    def discard_body(self) -> None:
        """Discard the body of the current request. After the response, the connection closes."""
        self._discarding = True

    def finished(self) -> None:
        """Record that the response to the current request is about to be written, so that the next head may follow."""
        self._later(0.0)

    # The methods of asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._limits.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limits.closed(self)
        self._transport = None
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
        if not len(self._heads) and not self.busy:
            self.deadline = min(self.deadline, asyncio.get_running_loop().time() + HEAD_WITHIN)
        self._heads.feed(data)
        self._advance()

    def eof_received(self) -> bool:
        """Return True if the connection must stay open, because the client still waits for a response."""
        self._ended = True
        self.deadline = min(self.deadline, asyncio.get_running_loop().time() + CLOSE_WITHIN)
        return self.busy

    def pause_writing(self) -> None:
        self.deadline = asyncio.get_running_loop().time() + READ_WITHIN
        if self._handler:
            self._handler.pause_writing()

    def resume_writing(self) -> None:
        if self.busy and not self._ended:
            self.deadline = math.inf
        if self._handler:
            self._handler.resume_writing()

    def _advance(self) -> None:
        """Start the next request if its head is complete and no other request is in progress."""
        if self._transport is None or self._transport.is_closing():
            return
        if self.busy:
            if len(self._heads) > MAX_HEAD and self._transport.is_reading():
                self._transport.pause_reading()
            return
        try:
            head = self._heads.next()
        except NotHttpError:
            self._refuse(Refusal("malformed", 400, "this port accepts only HTTP, not HTTPS"))
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
        self.busy, self.deadline = True, math.inf  # the requests that wait for their turn are limited
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
        if self._transport.get_write_buffer_size():
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
