"""Serves the scaler's status document and metrics over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ListenError
from lbdns_tools.scaler.running.scaler_loop import ScalerLoop
from lbdns_tools.scaler.running.scaler_status import metric_families, status_document

STATUS_PATH: Final = "/api/v1/scaler"
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class _LoopMetrics(Collector):
    def __init__(self, loop: ScalerLoop) -> None:
        self._loop = loop

    def collect(self) -> Iterator[Metric]:
        return metric_families(self._loop)


class StatusServer:
    """An HTTP server with the paths /api/v1/scaler, /metrics and /livez. It is read-only."""

    def __init__(self, loop: ScalerLoop, listen: Endpoint) -> None:
        self._loop, self._listen = loop, listen
        self._registry = CollectorRegistry()
        self._registry.register(_LoopMetrics(loop))
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen. Raises ListenError if the address cannot be used."""
        app = web.Application()
        app.router.add_get(STATUS_PATH, self._status)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/livez", self._live)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._listen.host, self._listen.port).start()
        except OSError as error:
            await self.stop()
            raise ListenError(f"[scaler] listen: {self._listen}: {error.strerror}") from None

    async def stop(self) -> None:
        """Close all connections."""
        if self._runner:
            await self._runner.cleanup()

    async def _status(self, _: web.Request) -> web.Response:
        return web.json_response(status_document(self._loop, time.time()))

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": METRICS_TYPE})

    async def _live(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")
