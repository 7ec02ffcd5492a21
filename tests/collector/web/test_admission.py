"""Tests of admission of HTTP requests: networks, credentials, and too many requests."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import time
from pathlib import Path

import aiohttp
import pytest

from lbdns.secrets.http_credentials import NO_CREDENTIALS, HttpCredentials
from lbdns_collector.web import access_control as readers_module
from lbdns_collector.web import admission
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
        for address, status in (("127.0.0.1", 403), ("127.0.0.2", 200)):
            connector = aiohttp.TCPConnector(local_addr=(address, 0))
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.get(web.url("/healthz"), headers={"X-Forwarded-For": "127.0.0.2"}) as response,
            ):
                assert response.status == status
                if status == 403:
                    error = (await response.json())["error"]
                    assert error.startswith("127.0.0.1 is not allowed to read")
                    assert "[web] allow" in error
    assert readers.refused["network"] == 1


async def test_too_many_requests_are_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_WAITING", 2)
    readers = AccessControl()
    async with served(tmp_path, readers) as web:
        statuses: list[int] = []
        scheduler = web.app[SCHEDULER]

        async def ask(session: aiohttp.ClientSession, path: str) -> None:
            async with session.get(web.url(path)) as response:
                await response.read()
                statuses.append(response.status)

        async with contextlib.AsyncExitStack() as stack:
            sessions = [await stack.enter_async_context(aiohttp.ClientSession()) for _ in range(4)]
            # Accepting a connection needs the scheduler too, so each session opens its connection first
            for session in sessions:
                await ask(session, "/healthz")
            statuses.clear()
            await scheduler._enter("work")
            asking = [asyncio.create_task(ask(session, "/api/v1/status")) for session in sessions]
            await until(lambda: len(statuses) == 2)
            assert statuses == [503, 503]
            scheduler._leave(0.0)
            await asyncio.gather(*asking)
            assert statuses == [503, 503, 200, 200]
    assert readers.refused["busy"] == 2
