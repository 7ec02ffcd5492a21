"""The base of fake clouds: an HTTP server on the loopback that logs requests and injects faults.

The server runs in the test's event loop, so a provider that blocks the event loop never receives a response.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any, Literal, Self

from aiohttp import web

from lbdns_tools.free_ports import free_port


@dataclass
class Fault:
    """A fault of the requests whose label matches the regular expression ``match``.

    ``hang`` performs nothing and sends no response, ``lost`` performs the request and then closes the connection
    without a response, and ``error`` sends an HTTP status with a body.
    """

    match: str
    kind: Literal["hang", "lost", "error"]
    times: int = 1
    status: int = 500
    body: str = ""
    content_type: str = "application/json"


class FakeCloud:
    """An HTTP server. A subclass adds routes, and may define what identifies a request."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.faults: list[Fault] = []
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.app = web.Application(middlewares=[self._middleware()])
        self._runner = web.AppRunner(self.app, shutdown_timeout=0.1)

    async def label(self, request: web.Request) -> str:
        """Return what identifies a request in ``requests`` and in faults."""
        return f"{request.method} {request.path}"

    def count(self, match: str) -> int:
        """Return the number of requests whose label matches a regular expression."""
        return sum(bool(re.search(match, label)) for label in self.requests)

    def _middleware(self) -> Any:
        @web.middleware
        async def middleware(request: web.Request, handler: Any) -> web.StreamResponse:
            return await self._handle(request, handler)

        return middleware

    async def _handle(self, request: web.Request, handler: Any) -> web.StreamResponse:
        label = await self.label(request)
        self.requests.append(label)
        fault = next((fault for fault in self.faults if fault.times and re.search(fault.match, label)), None)
        if fault is None:
            response: web.StreamResponse = await handler(request)
            return response
        fault.times -= 1
        match fault.kind:
            case "hang":
                await asyncio.sleep(3600)
            case "lost":
                await handler(request)
                assert request.transport
                request.transport.abort()
        return web.Response(status=fault.status, text=fault.body, content_type=fault.content_type)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
