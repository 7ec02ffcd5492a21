"""Tests of admission of HTTP requests: networks, credentials, and too many requests."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import time
from pathlib import Path

import aiohttp
import pytest

from lbdns.config.web_section import WebConfig
from lbdns.secrets.http_credentials import NO_CREDENTIALS, HttpCredentials
from lbdns_collector.web import access_control as readers_module
from lbdns_collector.web import connection_limits
from lbdns_collector.web.access_control import AccessControl
from lbdns_collector.web.app import PATHS
from lbdns_collector.web.app_keys import SCHEDULER
from tests.collector.collector_fixtures import until
from tests.collector.web.served_app import served

SAM = HttpCredentials("sam", "potatoes", ("abc123",))


def said(credentials: HttpCredentials) -> dict[str, str]:
    return {"Authorization": credentials.header()}


@pytest.mark.parametrize("path", [*PATHS, "/icon.svg", "/nothing"])
async def test_without_credentials_there_is_nothing_but_health(tmp_path: Path, path: str) -> None:
    readers = AccessControl(credentials=SAM)
    async with served(tmp_path, readers) as web, web.session.get(web.url(path)) as response:
        if path in ("/healthz", "/livez"):
            assert response.status == 200
            return
        assert (response.status, response.content_type) == (401, "application/json")
        challenge = response.headers["WWW-Authenticate"]
        assert challenge.startswith('Basic realm="lbdns"'), "so that a browser asks"
        assert "Bearer" in challenge
        assert "token" in (await response.json())["error"]
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert readers.refused["nameless"] == 1


@pytest.mark.parametrize(
    "credentials",
    [HttpCredentials("sam", "potatoes"), HttpCredentials(tokens=("abc123",)), HttpCredentials("browser", "abc123")],
)
async def test_with_credentials_everything_is_there(tmp_path: Path, credentials: HttpCredentials) -> None:
    async with served(tmp_path, AccessControl(credentials=SAM)) as web:
        for path in ("/", "/api/v1/status", "/metrics", "/api/v1/log"):
            async with web.session.get(web.url(path), headers=said(credentials)) as response:
                assert response.status == 200
        async with web.session.get(web.url("/api/v1/events"), headers=said(credentials)) as response:
            assert (await response.content.readline()) == b"event: status\n"


async def test_wrong_credentials_are_refused_after_a_delay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers_module, "DELAY", 0.1)
    readers = AccessControl(credentials=SAM)
    async with served(tmp_path, readers) as web:
        for wrong in (HttpCredentials("sam", "x"), HttpCredentials(tokens=("x",)), HttpCredentials("sam", "")):
            began = time.monotonic()
            async with web.session.get(web.url("/"), headers=said(wrong)) as response:
                assert response.status == 401
                assert "wrong" in (await response.json())["error"]
            assert time.monotonic() - began >= 0.1
    assert readers.refused["credentials"] == 3


async def test_guessing_is_limited_even_for_the_right_guess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers_module, "DELAY", 0.5)
    readers = AccessControl(credentials=SAM)
    async with served(tmp_path, readers) as web:

        async def guess(credentials: HttpCredentials) -> int:
            async with web.session.get(web.url("/"), headers=said(credentials)) as response:
                await response.read()
                return response.status

        wrong = [asyncio.create_task(guess(HttpCredentials("sam", "x"))) for _ in range(readers_module.AT_ONCE)]
        await until(lambda: not readers.may_try("127.0.0.1"))
        assert await guess(SAM) == 429
        assert await asyncio.gather(*wrong) == [401] * readers_module.AT_ONCE
        assert await guess(SAM) == 200
    assert readers.refused["tries"] == 1


async def test_a_reload_changes_who_may_read(tmp_path: Path) -> None:
    readers = AccessControl()
    async with served(tmp_path, readers) as web:
        for credentials, status in ((NO_CREDENTIALS, 200), (SAM, 401), (NO_CREDENTIALS, 200)):
            readers.credentials = credentials
            async with web.session.get(web.url("/api/v1/status")) as response:
                assert response.status == status


async def test_other_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests can only connect from a loopback address, so this test treats loopback like any other network."""
    readers = AccessControl((ipaddress.ip_network("127.0.0.2/32"),))
    async with served(tmp_path, readers) as web:
        monkeypatch.setattr("ipaddress.IPv4Address.is_loopback", False)
        for address, status in (("127.0.0.3", 403), ("127.0.0.2", 200)):
            connector = aiohttp.TCPConnector(local_addr=(address, 0))
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.get(web.url("/healthz"), headers={"X-Forwarded-For": "127.0.0.2"}) as response,
            ):
                assert response.status == status
                if status == 403:
                    error = (await response.json())["error"]
                    assert error.startswith("127.0.0.3 is not allowed to read")
                    assert "[web] allow" in error
    assert readers.refused["network"] == 1


@pytest.mark.parametrize("path", ["/", "/healthz", "/api/v1/status"])
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8053", "[evil]"])
async def test_dns_rebinding_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, host: str) -> None:
    readers = AccessControl()
    async with served(tmp_path, readers) as web:
        async with web.session.get(web.url(path), headers={"Host": host}) as response:
            assert response.status == 421
            error = (await response.json())["error"]
            assert repr(host) in error
            assert "[web] names" in error
        assert readers.refused["host"] == 1
        assert len([line for line in caplog.messages if host in line]) == 1


async def test_names_of_this_server(tmp_path: Path) -> None:
    readers = AccessControl()
    readers.apply(WebConfig(names=("dns.example.com",)), NO_CREDENTIALS)
    async with served(tmp_path, readers) as web:
        for host in ("dns.example.com", "DNS.Example.com.:8053", "localhost", "192.0.2.1:80", "[2001:db8::1]:80"):
            async with web.session.get(web.url("/healthz"), headers={"Host": host}) as response:
                assert response.status == 200, host


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 421),
        (b"GET /healthz HTTP/1.1\r\nHost: \r\n\r\n", 421),
    ],
)
async def test_host_headers(tmp_path: Path, head: bytes, status: int) -> None:
    async with served(tmp_path) as web:
        reader, writer = await asyncio.open_connection(web.server.address.host, web.server.address.port)
        writer.write(head)
        async with asyncio.timeout(60):
            assert (await reader.readline()).split()[1] == str(status).encode()
        writer.close()


async def test_too_many_requests_of_one_client_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "MAX_WAITING", 2)
    readers = AccessControl()
    async with served(tmp_path, readers) as web:
        statuses: list[int] = []
        scheduler = web.app[SCHEDULER]

        async def ask(session: aiohttp.ClientSession) -> None:
            async with session.get(web.url("/api/v1/status")) as response:
                await response.read()
                statuses.append(response.status)

        async with contextlib.AsyncExitStack() as stack:
            sessions = [await stack.enter_async_context(aiohttp.ClientSession()) for _ in range(4)]
            await scheduler._enter("work")
            asking = [asyncio.create_task(ask(session)) for session in sessions]
            await until(lambda: len(statuses) == 2)
            assert statuses == [503, 503]
            scheduler._leave(0.0)
            await asyncio.gather(*asking)
            assert statuses == [503, 503, 200, 200]
    assert readers.refused["busy"] == 2
