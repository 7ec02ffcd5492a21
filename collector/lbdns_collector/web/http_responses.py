"""HTTP responses: Builds and sends HTTP responses with JSON documents and errors.

Long bodies are sent in pieces, one piece per scheduler slice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from aiohttp import web

from lbdns_collector.status.status_document import to_json
from lbdns_collector.web.app_keys import SCHEDULER
from lbdns_collector.web.gated_connection import connection_of
from lbdns_collector.web.refusal import JSON
from lbdns_collector.web.render_scheduler import RenderScheduler

PIECE: Final = 32 * 1024  # bytes, which the kernel copies and sends over the loopback in about 30 us
PATIENCE: Final = 20.0  # seconds that a client may take to read a piece
POLL_PERIOD: Final = 0.01  # seconds between two checks of the write buffer
MIN_RATE: Final = 32 * 1024  # bytes/s that a client must read on average, after the first PATIENCE seconds


def error(status: int, what: str, **headers: str) -> web.Response:
    """Return an error response. ``what`` states what is wrong and how to correct the request.

    In header names, write ``_`` instead of ``-``.
    """
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.Response(status=status, body=to_json({"error": what}), content_type=JSON, headers=named)


async def document(request: web.Request, body: bytes, content_type: str = JSON) -> web.StreamResponse:
    if len(body) <= PIECE:
        return web.Response(body=body, headers={"Content-Type": content_type})
    response = web.StreamResponse(headers={"Content-Type": content_type})
    response.content_length = len(body)
    await response.prepare(request)
    if request.method != "HEAD":
        await send(request, response, body)
    await response.write_eof()
    return response


async def joined(scheduler: RenderScheduler, pieces: Iterable[bytes]) -> bytes:
    """Build ``pieces`` in scheduled slices, and return their concatenation."""
    return b"".join(await scheduler.work(iter(pieces)))


async def send(request: web.Request, response: web.StreamResponse, body: bytes) -> None:
    """Send ``body`` in pieces. Raises ConnectionError if the client has disconnected or reads too slowly."""
    view = memoryview(body)
    patience = PATIENCE + len(view) / MIN_RATE
    for start in range(0, len(view), PIECE):
        patience -= await _wait_until_read(request, min(patience, PATIENCE))
        async with request.app[SCHEDULER].turn("work"):
            await response.write(view[start : start + PIECE])  # does not wait: the buffer has room for a piece


async def send_at_once(response: web.StreamResponse, body: bytes) -> None:
    """Send ``body`` without waiting for the render scheduler. This is meant for clients whose DNS answers depend on the
    document.

    The function waits while the client is not reading.
    """
    view = memoryview(body)
    for start in range(0, len(view), PIECE):  # the write buffer copies what it cannot send
        await response.write(view[start : start + PIECE])


async def _wait_until_read(request: web.Request, patience: float) -> float:
    """Wait until the write buffer is empty. The caller waits here before each slice, so that the slice itself never
    waits for a slow client.

    Returns the number of seconds that the client took to read the data. If the client takes longer than ``patience``
    seconds, it is disconnected.
    """
    began = asyncio.get_running_loop().time()
    connection = connection_of(request)
    while connection.unsent:
        if asyncio.get_running_loop().time() - began > patience:
            connection.abort()
            break
        await asyncio.sleep(POLL_PERIOD)
    if connection.is_closing:
        raise ConnectionResetError("the client has disconnected")
    return asyncio.get_running_loop().time() - began
