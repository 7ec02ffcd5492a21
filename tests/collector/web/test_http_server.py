"""Tests of the HTTP server with usable and unusable addresses."""

from __future__ import annotations

import socket
from pathlib import Path

import aiohttp
import pytest

from lbdns_collector.web.app import make_app
from lbdns_collector.web.http_server import HttpServer
from lbdns_collector.web.web_interface import open_web_socket
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ListenError
from tests.collector.collector_fixtures import FakeSource, make_farm
from tests.needs import needs


def make_server(source: FakeSource, endpoint: Endpoint) -> HttpServer:
    return HttpServer(make_app(source), endpoint, open_web_socket(endpoint))


def test_a_taken_port_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ListenError, match=rf"web: 127\.0\.0\.1:{port}: the port is in use; .*ss -ltnp.*\[web\] listen"
        ):
            open_web_socket(Endpoint("127.0.0.1", port))


def test_an_address_of_another_machine_is_a_clear_error() -> None:
    with pytest.raises(ListenError, match="not an address of this machine"):
        open_web_socket(Endpoint("192.0.2.1", 0))


@needs(ipv6=True)
async def test_ipv6(tmp_path: Path) -> None:
    server = make_server(FakeSource(make_farm(tmp_path)), Endpoint("::1", 0))
    await server.start()
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://{server.address}/healthz") as response:
            assert await response.text() == "ok\n"
    finally:
        await server.stop()


async def test_the_port_is_free_after_stop(tmp_path: Path) -> None:
    source = FakeSource(make_farm(tmp_path))
    first = make_server(source, Endpoint("127.0.0.1", 0))
    await first.start()
    address = first.address
    await first.stop()
    second = make_server(source, address)
    await second.start()
    await second.stop()
