"""Addresses that can and can't be served on."""

from __future__ import annotations

import socket
from pathlib import Path

import aiohttp
import pytest

from lbdns.endpoint import Endpoint
from lbdns.errors import ListenError
from lbdns_collector.web.app import make_app
from lbdns_collector.web.server import WebServer
from tests.collector.making import FakeSource, make_farm
from tests.needs import needs


async def test_a_taken_port_is_a_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = WebServer(make_app(FakeSource(make_farm(tmp_path))), Endpoint("127.0.0.1", port))
        with pytest.raises(ListenError, match=rf"web: 127\.0\.0\.1:{port}: taken\. .*ss -ltnp.*\[web\] listen"):
            await server.start()
        await server.stop()


async def test_an_address_of_another_machine_is_a_clear_error(tmp_path: Path) -> None:
    server = WebServer(make_app(FakeSource(make_farm(tmp_path))), Endpoint("192.0.2.1", 0))
    with pytest.raises(ListenError, match="is no address of this machine"):
        await server.start()


@needs(ipv6=True)
async def test_ipv6(tmp_path: Path) -> None:
    server = WebServer(make_app(FakeSource(make_farm(tmp_path))), Endpoint("::1", 0))
    await server.start()
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://{server.address}/healthz") as response:
            assert await response.text() == "ok\n"
    finally:
        await server.stop()


async def test_the_port_is_free_after_stop(tmp_path: Path) -> None:
    source = FakeSource(make_farm(tmp_path))
    first = WebServer(make_app(source), Endpoint("127.0.0.1", 0))
    await first.start()
    address = first.address
    await first.stop()
    second = WebServer(make_app(source), address)
    await second.start()
    await second.stop()
