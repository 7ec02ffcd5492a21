"""Tests of /api/v1/scaler with a fake scaler that is fine, slow, down, or sends something else."""

from __future__ import annotations

import asyncio
import gzip
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lbdns.config.web_section import WebConfig
from lbdns.secrets.http_credentials import HttpCredentials
from lbdns_collector.web import scaler_reader
from lbdns_collector.web.access_control import AccessControl
from tests.collector.web.fake_scaler import fake_scaler
from tests.collector.web.served_app import Served, served

PATH = "/api/v1/scaler"


def configure(web: Served, url: str) -> None:
    """Put another ``[web] scaler`` in force, as a reload does."""
    farm = web.source.farm
    web.source.farm = replace(farm, config=replace(farm.config, web=replace(farm.config.web, scaler=url)))


async def get(web: Served, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    async with web.session.get(web.url(PATH), headers=headers or {}) as response:
        assert response.content_type == "application/json"
        assert response.headers["Content-Security-Policy"].startswith("default-src 'self'")
        return response.status, await response.json()


async def test_without_a_scaler_the_path_says_what_to_set(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        status, document = await get(web)
        assert (status, "set [web] scaler" in document["error"]) == (404, True)
        async with web.session.get(web.url("/api/v1/status")) as response:
            assert (await response.json())["server"]["scaler"] is False


async def test_the_document_is_passed_on(tmp_path: Path) -> None:
    async with served(tmp_path) as web, fake_scaler() as scaler:
        configure(web, scaler.url)
        scaler.document["later"] = {"key": "\u00e4 <b>"}
        assert await get(web) == (200, scaler.document)
        assert "Authorization" not in scaler.requests[0].headers
        async with web.session.get(web.url("/api/v1/status")) as response:
            assert (await response.json())["server"]["scaler"] is True
        async with web.session.post(web.url(PATH)) as response:
            assert response.status == 405


async def test_many_clients_cause_one_request_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path) as web, fake_scaler() as scaler:
        configure(web, scaler.url)
        monkeypatch.setattr(scaler_reader, "TIMEOUT", 30.0)
        monkeypatch.setattr(scaler_reader, "FRESH", 60.0)  # longer than the slowest machine takes
        scaler.delay = 0.1
        found = await asyncio.gather(*(get(web) for _ in range(20)))
        assert [status for status, _ in found] == [200] * 20
        assert len(scaler.requests) == 1
        scaler.document["reason"] = "another"
        assert (await get(web))[1]["reason"] != "another"
        monkeypatch.setattr(scaler_reader, "FRESH", 0.0)
        assert (await get(web))[1]["reason"] == "another"
        assert len(scaler.requests) == 2


async def test_a_reload_changes_the_scaler_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as web, fake_scaler() as first, fake_scaler() as second:
        second.document["farm"] = "shop"
        configure(web, first.url)
        assert (await get(web))[1]["farm"] == "web"
        configure(web, second.url)
        assert (await get(web))[1]["farm"] == "shop"
        configure(web, "")
        assert (await get(web))[0] == 404


async def test_a_slow_scaler_delays_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaler_reader, "TIMEOUT", 2.0)
    async with served(tmp_path) as web, fake_scaler() as scaler:
        configure(web, scaler.url)
        scaler.delay = 60.0
        waiting = asyncio.create_task(get(web))
        await scaler.asked.wait()
        async with web.session.get(web.url("/api/v1/status")) as response:
            assert response.status == 200
        assert not waiting.done(), "the status page did not wait for the scaler"
        status, document = await waiting
        assert status == 502
        assert document["error"].startswith(f"[web] scaler: {scaler.url}: no response within 2 s")
        # The error is remembered, so that waiting clients do not wait in turn
        assert await get(web) == (502, document)
        assert len(scaler.requests) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"body": b"<html>It works!</html>"}, "it is not a JSON object"),
        ({"body": b'{"pools": []}'}, "it has no key 'farm'"),
        ({"body": b" " * (2**20 + 1)}, "it is longer than 1048576 bytes"),
        ({"body": b"x" * 5_000_000}, "it is longer than 1048576 bytes"),
        ({"status": 404}, "/api/v1/scaler returned status 404"),
        ({"status": 500}, "returned status 500"),
        ({"status": 302, "headers": {"Location": "/api/v1/scaler"}}, "returned status 302"),
        ({"body": gzip.compress(b"0" * 50_000_000), "headers": {"Content-Encoding": "gzip"}}, "it is not UTF-8"),
    ],
    ids=["html", "lbdns", "long", "huge", "404", "500", "redirect", "bomb"],
)
async def test_another_response_is_an_error(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    async with served(tmp_path) as web, fake_scaler() as scaler:
        configure(web, scaler.url)
        for name, value in changes.items():
            setattr(scaler, name, value)
        status, document = await get(web)
        assert status == 502
        assert document["error"].startswith(f"[web] scaler: {scaler.url}: the response is not from lbdns-scaler: ")
        assert message in document["error"]
        assert len(scaler.requests) == 1


async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
    writer.close()


async def test_a_scaler_that_is_down_or_speaks_another_protocol(tmp_path: Path) -> None:
    async with served(tmp_path) as web, fake_scaler() as scaler:
        gone = scaler.url
        server = await asyncio.start_server(garbage, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        configure(web, f"http://127.0.0.1:{port}")
        status, document = await get(web)
        assert (status, "no response: " in document["error"]) == (502, True)
        configure(web, f"https://127.0.0.1:{port}")
        status, document = await get(web)
        assert (status, "no response" in document["error"]) == (502, True)
        server.close()
        await server.wait_closed()
    async with served(tmp_path) as web:
        configure(web, gone)
        status, document = await get(web)
        assert status == 502
        assert "no response: Connection refused. " in document["error"]
        assert "Is 'lbdns-scaler run' running" in document["error"]
        configure(web, "http://no-such-host.invalid:8054")
        status, document = await get(web)
        assert (status, "no-such-host.invalid" in document["error"]) == (502, True)


async def test_a_server_that_names_itself_gives_up_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaler_reader, "TIMEOUT", 0.3)
    async with served(tmp_path) as web:
        configure(web, web.url(""))
        began = time.monotonic()
        status, document = await get(web)
        assert (status, "no response within 0.3 s" in document["error"]) == (502, True)
        assert time.monotonic() - began < 30.0


async def test_access_is_that_of_the_status(tmp_path: Path) -> None:
    access = AccessControl()
    access.apply(WebConfig(), HttpCredentials(tokens=("sesame",)))
    async with served(tmp_path, access) as web, fake_scaler() as scaler:
        configure(web, scaler.url)
        assert (await get(web))[0] == 401
        assert scaler.requests == []
        assert await get(web, {"Authorization": "Bearer sesame"}) == (200, scaler.document)
        async with web.session.get(web.url(PATH), headers={"Host": "evil.example"}) as response:
            assert response.status == 421


async def test_a_stopping_server_ends_a_pending_request(tmp_path: Path) -> None:
    async with fake_scaler() as scaler:
        scaler.delay = 60.0
        async with served(tmp_path) as web:
            configure(web, scaler.url)
            waiting = asyncio.create_task(get(web))
            await scaler.asked.wait()
            began = time.monotonic()
        assert time.monotonic() - began < 30.0
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
