"""Probes and benchmarks against a real web server on the loopback interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from lbdns_tools.free_ports import free_ports
from lbdns_tools.scaler.life_cycle import web_probe
from lbdns_tools.scaler.life_cycle.web_probe import BenchmarkSettings, ProbeError, WebProbe

ADDRESS = ("127.0.0.1",)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async def page(request: web.Request) -> web.Response:
        return web.Response(status=int(request.query.get("status", 200)), text=request.host)

    async def slow(request: web.Request) -> web.StreamResponse:
        """Send a page in two parts, with a pause in between."""
        response = web.StreamResponse(headers={"Content-Length": "2"})
        await response.prepare(request)
        await response.write(b"a")
        await asyncio.sleep(float(request.query["pause"]))
        await response.write(b"b")
        return response

    app = web.Application()
    app.router.add_get("/", page)
    app.router.add_get("/slow", slow)
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
    async with asyncio.timeout(60):  # a busy machine may leave no time for responses
        while await WebProbe(port, "/", "", settings).benchmark(ADDRESS) <= 10:
            pass
    with pytest.raises(ProbeError, match="status 500"):
        await WebProbe(port, "/", "", BenchmarkSettings(0.3, 2, path="/?status=500")).benchmark(ADDRESS)


async def test_a_benchmark_counts_whole_pages(port: int) -> None:
    settings = BenchmarkSettings(seconds=0.3, clients=2, path="/slow?pause=0.1")
    assert await WebProbe(port, "/", "", settings).benchmark(ADDRESS) <= 20


async def test_a_server_that_does_not_respond_in_time(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_probe, "TIMEOUT", 0.1)
    with pytest.raises(ProbeError, match=r"GET /slow\?pause=2: no response within 0.1 s"):
        await WebProbe(port, "/slow?pause=2", "", None).probe(ADDRESS)
