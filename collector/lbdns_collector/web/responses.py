"""Sending: documents and errors as JSON, long bodies in pieces that each pass the gate."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from aiohttp import web

from lbdns_collector.web.gate import Gate
from lbdns_collector.web.keys import GATE
from lbdns_collector.web.render import to_json

JSON: Final = "application/json"
PIECE: Final = 32 * 1024  # bytes that the kernel copies, and carries over the loopback, in about 30 us
PATIENCE: Final = 20.0  # seconds a reader may take for a piece
LOOK: Final = 0.01  # seconds between looks whether it has been taken


def error(status: int, what: str, **headers: str) -> web.Response:
    """``what`` says what, where, and what instead. Header names with _ for -."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.Response(status=status, body=to_json({"error": what}), content_type=JSON, headers=named)


async def document(request: web.Request, body: bytes, content_type: str = JSON) -> web.StreamResponse:
    """A whole body."""
    if len(body) <= PIECE:
        return web.Response(body=body, headers={"Content-Type": content_type})
    response = web.StreamResponse(headers={"Content-Type": content_type})
    response.content_length = len(body)
    await response.prepare(request)
    if request.method != "HEAD":
        await send(request, response, body)
    await response.write_eof()
    return response


async def joined(gate: Gate, pieces: Iterable[bytes]) -> bytes:
    """What is made in small steps, in as many slices as it takes."""
    return b"".join(await gate.work(iter(pieces)))


async def send(request: web.Request, response: web.StreamResponse, body: bytes) -> None:
    """Write ``body`` in pieces. Raises ConnectionError when the reader has gone, or takes too long."""
    view = memoryview(body)
    for start in range(0, len(view), PIECE):
        await _taken(request)
        async with request.app[GATE].turn("work"):
            await response.write(view[start : start + PIECE])  # waits for nothing: there is room for a piece


async def _taken(request: web.Request) -> None:
    """Wait until nothing is kept for the reader any more: nobody else must wait for it within the gate."""
    left = PATIENCE
    while (transport := request.transport) is not None and transport.get_write_buffer_size():
        if left <= 0:
            transport.abort()
            break
        left -= LOOK
        await asyncio.sleep(LOOK)
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the reader has gone")
