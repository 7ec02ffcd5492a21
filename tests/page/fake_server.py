"""A fake lbdns server for tests of the live page, which serves a fake farm."""

from __future__ import annotations

import asyncio
import contextlib
import json
import mimetypes
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from aiohttp import web

import lbdns_collector.web
from tests.browser import PATIENCE
from tests.page.fake_farm import FakeFarm

STATIC: Final = Path(lbdns_collector.web.__file__).parent / "static"
POLICY: Final = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


class FakeServer:
    """Serves a farm as ``lbdns serve`` does, and sends the status every ``interval`` seconds and on demand."""

    def __init__(self, farm: FakeFarm, interval: float = 1.0) -> None:
        self.farm, self.interval = farm, interval
        self.is_down = False  # whether connections are reset
        self.history_allowed = asyncio.Event()  # responses with history wait for this event
        self.history_allowed.set()
        self.failing_sparklines = 0  # how many of the next requests for sparklines fail
        self.streams: dict[web.StreamResponse, asyncio.Transport] = {}
        self.sent = 0  # status documents
        self.url = ""

    async def send_event(self, **fields: Any) -> None:
        """Add an event to the farm's log, and send the event to all open pages."""
        event = {"id": len(self.farm.events) + 1, "time": self.farm.time, "pool": "", "member": "", **fields}
        self.farm.events.append(event)
        await self._connected()
        await self._send("log", json.dumps(event))

    async def send_status(self) -> None:
        """Send the current status to all open pages."""
        await self._connected()
        self.sent += 1
        await self._send("status", json.dumps(self.farm.status()))

    def go_down(self) -> None:
        """Close all open event streams, and refuse new requests until ``is_down`` is False again."""
        self.is_down = True
        for transport in self.streams.values():
            transport.abort()

    async def _connected(self) -> None:
        """Wait until a page is connected: what is sent earlier reaches no page."""
        async with asyncio.timeout(PATIENCE):
            while not self.streams:  # noqa: ASYNC110  the streams have no event
                await asyncio.sleep(0.01)

    async def _send(self, event: str, data: str) -> None:
        for stream in tuple(self.streams):
            with contextlib.suppress(ConnectionError):
                await stream.write(f"event: {event}\ndata: {data}\n\n".encode())

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.interval)
            if self.streams:
                await self.send_status()

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._middleware])
        app.router.add_get("/api/v1/status", self._status)
        app.router.add_get("/api/v1/events", self._events)
        if self.farm.is_current:
            app.router.add_get("/api/v1/log", self._log)
            app.router.add_get("/api/v1/history", self._history)
            app.router.add_get("/api/v1/plots", self._plots)
            app.router.add_get("/api/v1/explain", self._explain)
        app.router.add_get("/{path:.*}", self._file)
        return app

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self.is_down:
            assert request.transport is not None
            request.transport.abort()
        response: web.StreamResponse = await handler(request)
        if not response.prepared:
            response.headers["Content-Security-Policy"] = POLICY
        return response

    async def _status(self, request: web.Request) -> web.Response:
        return web.json_response(self.farm.status())

    async def _log(self, request: web.Request) -> web.Response:
        since, limit = float(request.query.get("since", 0)), int(request.query.get("limit", 200))
        found = [event for event in self.farm.events if event["time"] >= since]
        kind = request.query.get("kind", "")
        return web.json_response({"events": [event for event in found if kind in ("", event["kind"])][-limit:]})

    async def _history(self, request: web.Request) -> web.Response:
        parameters = request.query
        if not self.farm.has_history:
            return web.json_response({"error": "history is off"}, status=404)
        return web.json_response(
            self.farm.history(
                parameters.get("pool", ""), parameters["metric"], parameters.getall("member", []),
                float(parameters["from"]), float(parameters["to"]), int(parameters["points"]),
            )
        )  # fmt: skip

    async def _plots(self, request: web.Request) -> web.Response:
        parameters = request.query
        if not self.farm.has_history:
            return web.json_response({"error": "history is off"}, status=404)
        if self.failing_sparklines and parameters["step"] == "2":
            self.failing_sparklines -= 1
            return web.json_response({"error": "too busy"}, status=503)
        await self.history_allowed.wait()
        return web.json_response(
            self.farm.plots(
                parameters.get("pool", ""), parameters.getall("metric", []), parameters.getall("server", []),
                parameters.getall("member", []), float(parameters["from"]), float(parameters["to"]),
                float(parameters["step"]),
            )
        )  # fmt: skip

    async def _explain(self, request: web.Request) -> web.Response:
        name = request.query.get("name", "")
        explanation = self.farm.explain(name)
        if explanation is None:
            return web.json_response({"error": f"no pool answers {name!r}"}, status=404)
        return web.json_response(explanation)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        await response.write(f"event: status\ndata: {json.dumps(self.farm.status())}\n\n".encode())
        transport = request.transport
        assert transport is not None
        self.streams[response] = transport
        try:
            await asyncio.Event().wait()  # until the client disconnects, which cancels this handler
        finally:
            del self.streams[response]
        return response

    async def _file(self, request: web.Request) -> web.StreamResponse:
        path = STATIC / (request.match_info["path"] or "index.html")
        if not path.is_file():
            return web.json_response({"error": "not found"}, status=404)
        kind = "text/javascript" if path.suffix == ".js" else mimetypes.guess_type(path.name)[0] or "text/plain"
        return web.Response(body=path.read_bytes(), content_type=kind, charset="utf-8")


@contextlib.asynccontextmanager
async def fake_server(farm: FakeFarm, interval: float = 1, own: FakeServer | None = None) -> AsyncIterator[FakeServer]:
    """Serve ``farm``, or the test's ``own`` server, on a free loopback port."""
    server = own or FakeServer(farm, interval)
    runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=0.5, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    task = asyncio.create_task(server.run())
    try:
        yield server
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        server.go_down()
        await runner.cleanup()
