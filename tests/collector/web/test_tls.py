"""Tests of HTTPS: the same documents and the same limits as without TLS, and handshakes that fail or never end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from lbdns.client.http_client import HttpLocation, fetch, stream_events
from lbdns.config.web_section import WebConfig
from lbdns.secrets.http_credentials import NO_CREDENTIALS
from lbdns.secrets.tls_certificate import client_context, server_context
from lbdns_collector.web import gated_connection, http_responses
from lbdns_collector.web.access_control import AccessControl
from lbdns_collector.web.app_keys import SCHEDULER
from lbdns_collector.web.connection_limits import MAX_OPEN
from lbdns_collector.web.web_interface import WebInterface
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError, LbdnsError
from tests.certificates import self_signed
from tests.collector.collector_fixtures import FakeSource, make_farm, until
from tests.collector.web.served_app import Served, served

FREE = Endpoint("127.0.0.1", 0)
REQUEST = b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return self_signed(tmp_path / "tls")[0]


def access(certificate: Path, *, per_client: int = 64) -> AccessControl:
    rules = AccessControl()
    web = WebConfig(tls_cert=certificate, tls_key=certificate.with_suffix(".key"), connections_per_client=per_client)
    rules.apply(web, NO_CREDENTIALS, server_context(web)[0])
    return rules


def location(web: Served, certificate: Path) -> HttpLocation:
    return HttpLocation(f"https://{web.server.address}", NO_CREDENTIALS, certificate)


@contextlib.asynccontextmanager
async def secured(web: Served, certificate: Path) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    address = web.server.address
    reader, writer = await asyncio.open_connection(
        address.host, address.port, ssl=client_context(certificate), server_hostname="web"
    )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


@contextlib.asynccontextmanager
async def plain(web: Served) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(web.server.address.host, web.server.address.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def test_documents_pages_and_events(tmp_path: Path, certificate: Path) -> None:
    async with served(tmp_path, access(certificate)) as web:
        server = location(web, certificate)
        assert "pools" in json.loads(await asyncio.to_thread(fetch, server, "/api/v1/status"))
        assert b"<html" in await asyncio.to_thread(fetch, server, "/")
        events = stream_events(server)
        assert (await asyncio.to_thread(next, events)).name == "status"
        del events
        await until(lambda: web.limits.busy == web.limits.waiting == 0)


async def test_a_client_that_does_not_know_the_certificate_refuses_it(tmp_path: Path, certificate: Path) -> None:
    rules = access(certificate)
    async with served(tmp_path, rules) as web:
        for trusted in (None, self_signed(tmp_path / "other")[0]):
            server = HttpLocation(f"https://{web.server.address}", NO_CREDENTIALS, trusted)
            with pytest.raises(LbdnsError, match=r"the server's certificate is not trusted: .*; set SSL_CERT_FILE"):
                await asyncio.to_thread(fetch, server, "/")
        await until(lambda: rules.refused["handshake"] == 2 and not web.limits.waiting)


async def test_http_on_the_port_of_https_is_a_clear_error(tmp_path: Path, certificate: Path) -> None:
    async with served(tmp_path, access(certificate)) as web:
        with pytest.raises(LbdnsError, match="this port accepts only HTTPS; write https:// in the URL"):
            await asyncio.to_thread(fetch, HttpLocation(f"http://{web.server.address}"), "/")


async def test_https_on_the_port_of_http_is_a_clear_error(tmp_path: Path, certificate: Path) -> None:
    async with served(tmp_path) as web:
        with pytest.raises(LbdnsError, match=r"the TLS handshake failed: .*; does the server use http://"):
            await asyncio.to_thread(fetch, location(web, certificate), "/")


async def test_several_requests_on_a_connection_and_a_hello_in_pieces(tmp_path: Path, certificate: Path) -> None:
    async with served(tmp_path, access(certificate)) as web:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context(certificate).wrap_bio(incoming, outgoing, server_hostname="web")
        async with plain(web) as (reader, writer):
            while True:
                with contextlib.suppress(ssl.SSLWantReadError):
                    tls.do_handshake()
                    break
                for byte in outgoing.read():
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0)
                incoming.write(await reader.read(65536))
            writer.write(outgoing.read())
            for _ in range(3):
                tls.write(REQUEST)
                writer.write(outgoing.read())
                body = b""
                while not body.endswith(b"}"):
                    try:
                        body += tls.read(65536)
                    except ssl.SSLWantReadError:
                        incoming.write(await reader.read(65536))
                assert body.startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("sent", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01", b"\x16" + bytes(20_000)])
async def test_a_handshake_that_never_ends_is_closed(
    tmp_path: Path, certificate: Path, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gated_connection, "HEAD_WITHIN", 0.3)
    async with served(tmp_path, access(certificate)) as web, plain(web) as (reader, writer):
        writer.write(sent)
        with contextlib.suppress(ConnectionError):
            assert len(await asyncio.wait_for(reader.read(), 60)) < 100, "at most an alert"
        await until(lambda: not web.limits.waiting)


@pytest.mark.parametrize("half", [True, False])
async def test_a_client_that_leaves_during_the_handshake_leaves_nothing(
    tmp_path: Path, certificate: Path, half: bool
) -> None:
    async with served(tmp_path, access(certificate)) as web:
        outgoing = ssl.MemoryBIO()
        tls = client_context(certificate).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="web")
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        async with plain(web) as (reader, writer):
            writer.write(outgoing.read())
            assert await reader.read(1)
            if half:
                writer.write_eof()
                await until(lambda: not web.limits.waiting)
        await until(lambda: not web.limits.waiting)
        assert web.limits.busy == 0


async def test_a_client_that_ends_its_side_gets_no_warning_into_the_log(
    tmp_path: Path, certificate: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, access(certificate)) as web, secured(web, certificate) as (reader, writer):
        writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await reader.readuntil(b"event: status")
        writer.close()
        await until(lambda: web.limits.busy == web.limits.waiting == 0)
    assert not [record.message for record in caplog.records if record.name == "asyncio"]


async def test_silent_connections_do_not_lock_readers_out(tmp_path: Path, certificate: Path) -> None:
    async with served(tmp_path, access(certificate)) as web, contextlib.AsyncExitStack() as stack:
        for number in range(MAX_OPEN + 20):
            _, writer = await stack.enter_async_context(plain(web))
            if number % 2:
                writer.write(b"\x16\x03\x01\x02\x00")
        assert b"pools" in await asyncio.to_thread(fetch, location(web, certificate), "/api/v1/status")
        assert web.limits.waiting <= MAX_OPEN


async def test_a_client_that_does_not_read_is_disconnected(
    tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_responses, "PATIENCE", 0.5)
    monkeypatch.setattr(gated_connection, "READ_WITHIN", 0.5)
    async with served(tmp_path, access(certificate)) as web:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, (web.server.address.host, web.server.address.port))
        reader, writer = await asyncio.open_connection(
            sock=connection, ssl=client_context(certificate), server_hostname="web", limit=1024
        )
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(60):  # each response is larger than the buffers of both sides together
            writer.write(b"GET /vendor/uPlot.iife.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: web.limits.busy == 1)
        await until(lambda: web.limits.busy == web.limits.waiting == 0)
        writer.transport.abort()
        del reader


async def test_a_reload_replaces_the_certificate_and_the_scheme(tmp_path: Path, certificate: Path) -> None:
    pages = WebInterface(FakeSource(make_farm(tmp_path)))
    other = self_signed(tmp_path / "other")[0]
    try:
        await pages.start(WebConfig(FREE))
        address = pages.address
        async with aiohttp.ClientSession() as session, session.get(f"http://{address}/api/v1/events") as stream:
            assert await stream.content.readline()
            await pages.start(WebConfig(FREE, tls_cert=certificate, tls_key=certificate.with_suffix(".key")))
            with pytest.raises(aiohttp.ClientError):
                await stream.content.read()
        assert await asyncio.to_thread(fetch, HttpLocation(f"https://{address}", certificate=certificate), "/livez")
        await pages.start(WebConfig(FREE, tls_cert=other, tls_key=other.with_suffix(".key")))
        assert await asyncio.to_thread(fetch, HttpLocation(f"https://{address}", certificate=other), "/livez")
        with pytest.raises(ConfigError, match="does not belong"):
            await pages.start(WebConfig(FREE, tls_cert=certificate, tls_key=other.with_suffix(".key")))
        assert await asyncio.to_thread(fetch, HttpLocation(f"https://{address}", certificate=other), "/livez")
        await pages.start(WebConfig(FREE))
        assert await asyncio.to_thread(fetch, HttpLocation(f"http://{address}"), "/livez")
    finally:
        await pages.stop()


async def test_handshakes_whose_clients_have_left_do_not_wait_for_a_turn(tmp_path: Path, certificate: Path) -> None:
    async with served(tmp_path, access(certificate)) as web, web.app[SCHEDULER].turn("work"):
        for _ in range(20):
            async with plain(web) as (_, writer):
                writer.write(b"\x16\x03\x01\x02\x00")
                await until(lambda: web.limits.waiting == 1)
                client = web.limits.connections()[0].client
                await until(lambda client=client: client.queued["handshake"] == 1)  # type: ignore[misc]
            web.limits.close_all()
            await until(lambda: not web.limits.waiting)
            assert client.queued["handshake"] == 0
