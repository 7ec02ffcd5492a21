"""A fake scaler, which serves a status document, or whatever a test wants instead."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

STATES = (
    "wanted", "starting", "configuring", "benchmarking", "joining", "in service", "draining", "stopping", "stopped",
    "deleting", "failed",
)  # fmt: skip


def scaler_server(name: str, state: str, since: float, reason: str = "", **changes: Any) -> dict[str, Any]:
    """Return one server of a status document."""
    is_serving = state == "in service"
    return {
        "name": name, "state": state, "since": since, "age_s": 42.0, "reason": reason, "held": False,
        "addresses": ["127.0.1.1"], "machine": "running", "billed_since": since, "benchmark": 12.5,
        "requests_per_s": 8.7 if is_serving else None, "cpu_percent": 61.0 if is_serving else None,
        "connections": 3 if is_serving else None, **changes,
    }  # fmt: skip


def scaler_status(servers: list[dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a status document with half an hour of rounds, as ``status_document`` of the scaler makes it."""
    now = time.time()
    if servers is None:
        servers = [
            *(scaler_server(f"web-{i}", "in service", now - 600, "all checks passed") for i in range(1, 5)),
            scaler_server("web-5", "starting", now - 3, "52 requests/s need 6 servers"),
            scaler_server("web-6", "wanted", now - 3, "52 requests/s need 6 servers"),
        ]
    states = [server["state"] for server in servers]
    return {
        "farm": "web", "policy": "queue", "dry_run": False, "minimum": 1, "maximum": 8, "quota": 10,
        "started": now - 1800, "trouble": "",
        "demand": {"time": now, "requests_per_s": 52.0, "cpu_percent": None, "capacity": 10.0},
        "recommended": 6, "wanted": 6,
        "reason": "52 requests/s at 10 requests/s per server need 6 servers",
        "changes": ["web-6: wanted"], "counts": {state: states.count(state) for state in STATES},
        "failures": {}, "servers": servers,
        "rounds": [
            {"time": now - 1800 + 15 * i, "requests_per_s": 4 + 0.4 * i, "in_service": 1 + i // 40,
             "recommended": 1 + (i + 10) // 30}
            for i in range(121)
        ],
        **changes,
    }  # fmt: skip


class FakeScaler:
    """Responds to GET /api/v1/scaler with ``body``, or the current ``document``, after ``delay`` seconds."""

    def __init__(self) -> None:
        self.document = scaler_status()
        self.body: bytes | None = None
        self.status, self.delay = 200, 0.0
        self.headers: dict[str, str] = {}
        self.requests: list[web.Request] = []
        self.asked = asyncio.Event()  # set by each request
        self.url = ""

    async def respond(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        self.asked.set()
        await asyncio.sleep(self.delay)
        body = json.dumps(self.document).encode() if self.body is None else self.body
        return web.Response(status=self.status, body=body, headers={"Content-Type": "application/json", **self.headers})


@contextlib.asynccontextmanager
async def fake_scaler() -> AsyncIterator[FakeScaler]:
    """Run a fake scaler on a free loopback port."""
    scaler, app = FakeScaler(), web.Application()
    app.router.add_get("/api/v1/scaler", scaler.respond)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    scaler.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield scaler
    finally:
        await runner.cleanup()
