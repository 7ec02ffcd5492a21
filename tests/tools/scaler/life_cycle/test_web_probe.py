"""Probes and benchmarks against a real web server on the loopback interface."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from lbdns_tools.free_ports import free_ports
from lbdns_tools.scaler.life_cycle.web_probe import BenchmarkSettings, ProbeError, WebProbe

ADDRESS = ("127.0.0.1",)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async def page(request: web.Request) -> web.Response:
        return web.Response(status=int(request.query.get("status", 200)), text=request.host)

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    (found,) = free_ports(1)
    await web.TCPSite(runner, "127.0.0.1", found).start()
    yield found
    await runner.cleanup()


async def test_a_server_that_responds(port: int) -> None:
    await WebProbe(port, "/", "best.hobbit", None).probe(ADDRESS)
    await WebProbe(port, "/?status=302", "", None).probe(ADDRESS)


async def test_a_server_with_an_error(port: int) -> None:
    with pytest.raises(ProbeError, match=r"GET /\?status=503: status 503"):
        await WebProbe(port, "/?status=503", "", None).probe(ADDRESS)


async def test_a_server_that_is_not_there() -> None:
    (closed,) = free_ports(1)
    with pytest.raises(ProbeError, match="GET /: "):
        await WebProbe(closed, "/", "", None).probe(ADDRESS)
    with pytest.raises(ProbeError, match="no address yet"):
        await WebProbe(closed, "/", "", None).probe(())


async def test_a_benchmark_counts_responses(port: int) -> None:
    settings = BenchmarkSettings(seconds=0.3, clients=2)
    assert await WebProbe(port, "/", "", settings).benchmark(ADDRESS) > 10
    with pytest.raises(ProbeError, match="status 500"):
        await WebProbe(port, "/", "", BenchmarkSettings(0.3, 2, path="/?status=500")).benchmark(ADDRESS)
