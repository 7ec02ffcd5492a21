"""Tests of the HTTP server with usable and unusable addresses."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import aiohttp
import pytest

from lbdns_collector.web import gated_connection, http_responses
from lbdns_collector.web.app import make_app
from lbdns_collector.web.http_server import HttpServer
from lbdns_collector.web.web_interface import open_web_socket
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ListenError
from tests.collector.collector_fixtures import FakeSource, make_farm, until
from tests.collector.web.served_app import served
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


async def test_a_client_that_does_not_read_the_end_of_a_response_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end fits into the write buffer, which therefore never reports that it is full."""
    monkeypatch.setattr(gated_connection, "READ_WITHIN", 0.5)
    monkeypatch.setattr(http_responses, "PATIENCE", 0.5)
    async with served(tmp_path) as web:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, (web.server.address.host, web.server.address.port))
            request = b"GET /vendor/uPlot.iife.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
            await asyncio.get_running_loop().sock_sendall(client, 200 * request)
            await until(lambda: web.limits.busy == 1)
            await until(lambda: web.limits.busy == web.limits.waiting == 0)
