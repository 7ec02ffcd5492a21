"""A fake lbdns server with a scaler, for tests of the panel "Servers and demand"."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from tests.collector.web.fake_scaler import STATES, scaler_server, scaler_status
from tests.page.fake_farm import FakeFarm, demo_farm
from tests.page.fake_server import FakeServer, fake_server


class ScalerPages(FakeServer):
    """Serves the page and a scaler's status. If ``error`` is not empty, it is sent instead, with status 502."""

    def __init__(self, farm: FakeFarm, interval: float) -> None:
        super().__init__(farm, interval)
        self.scaler: dict[str, Any] | None = scaler_status()
        self.error = ""
        self.reads = 0  # of the scaler's status
        plain_status = farm.status

        def status() -> dict[str, Any]:
            document = plain_status()
            document["server"]["scaler"] = self.scaler is not None
            return document

        farm.status = status  # type: ignore[method-assign]

    async def _file(self, request: web.Request) -> web.StreamResponse:
        if request.path != "/api/v1/scaler":
            return await super()._file(request)
        self.reads += 1
        if self.error:
            return web.json_response({"error": self.error}, status=502)
        return web.json_response(self.scaler, status=200 if self.scaler else 404)


@contextlib.asynccontextmanager
async def scaler_pages(farm: FakeFarm | None = None, **changes: Any) -> AsyncIterator[ScalerPages]:
    """Serve ``farm`` with a scaler whose status has these ``changes``."""
    farm = farm or demo_farm()
    server = ScalerPages(farm, 60)
    server.scaler = scaler_status() | changes
    async with fake_server(farm, own=server):
        yield server


def servers_of_all_stages() -> list[dict[str, Any]]:
    """Return a server of each stage, in reverse order, with a long reason and a server that an operator holds."""
    now = time.time()
    servers = [
        scaler_server(f"web-{i}", state, now - 90 * i, f"because of {state}") for i, state in enumerate(STATES, 1)
    ]
    servers[0]["reason"] = "a-reason-without-any-space" * 9
    servers.append(scaler_server("web-12", "in service", now - 30, "the front end sends it clients", held=True))
    return servers[::-1]


def many_servers(count: int) -> list[dict[str, Any]]:
    """Return ``count`` servers, the last of which is joining."""
    now = time.time()
    states = ["in service"] * (count - 1) + ["joining"]
    return [scaler_server(f"web-{i}", state, now - 60, "it is needed") for i, state in enumerate(states, 1)]


def with_servers(servers: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """Return the changes of a status that contains ``servers``."""
    return {key: scaler_status(servers)[key] for key in ("servers", "counts")} | changes
