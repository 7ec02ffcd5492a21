"""Tests of a program's web interface: address, access rules, and changes on reload."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from lbdns.config.web_section import WebConfig
from lbdns_collector.web.web_interface import OFF, WebInterface, open_web_socket
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError, ListenError
from tests.collector.collector_fixtures import FakeSource, make_farm

FREE = Endpoint("127.0.0.1", 0)


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[WebInterface]:
    made = WebInterface(FakeSource(make_farm(tmp_path)))
    yield made
    await made.stop()


async def get(pages: WebInterface, token: str = "", path: str = "/api/v1/status") -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"http://{pages.address}{path}") as response,
    ):
        return response.status


def token_file(folder: Path, token: str, mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_text(f"{token}\n")
    path.chmod(mode)
    return path


async def test_a_reload_takes_another_token_on_the_same_socket(pages: WebInterface, tmp_path: Path) -> None:
    path = token_file(tmp_path, "one")
    await pages.start(WebConfig(FREE, token_file=path))
    address = pages.address
    assert [await get(pages), await get(pages, "one")] == [401, 200]
    token_file(tmp_path, "two")
    await pages.start(WebConfig(FREE, token_file=path))
    assert [await get(pages, "two"), await get(pages), await get(pages, path="/healthz")] == [200, 401, 200]
    await pages.start(WebConfig(FREE))
    assert await get(pages) == 200
    assert pages.address == address


@pytest.mark.parametrize("listen", [FREE, Endpoint("127.0.0.1", 1)])
async def test_a_bad_reload_changes_nothing(pages: WebInterface, tmp_path: Path, listen: Endpoint) -> None:
    await pages.start(WebConfig(FREE, token_file=token_file(tmp_path, "one")))
    address = pages.address
    with pytest.raises(ConfigError, match="cannot read the"):
        await pages.start(WebConfig(listen, token_file=tmp_path / "missing"))
    with pytest.raises(ConfigError, match="is empty"):
        await pages.start(WebConfig(listen, token_file=token_file(tmp_path, "")))
    assert pages.address == address
    assert [await get(pages), await get(pages, "one")] == [401, 200]


async def test_an_address_that_can_not_be_had_leaves_the_readers_alone(pages: WebInterface, tmp_path: Path) -> None:
    await pages.start(WebConfig(FREE, token_file=token_file(tmp_path, "one")))
    with pytest.raises(ListenError):
        await pages.start(WebConfig(Endpoint("192.0.2.1", 0)))
    assert [await get(pages), await get(pages, "one")] == [401, 200]


async def test_files_that_others_can_read_are_warned_of(
    pages: WebInterface, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await pages.start(WebConfig(FREE, token_file=token_file(tmp_path, "one", 0o640)))
    assert [message for message in caplog.messages if "mode 0640" in message]


async def test_off(pages: WebInterface) -> None:
    await pages.start(WebConfig(FREE))
    address = pages.address
    await pages.start(OFF)
    assert pages.address is None
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(f"http://{address}/healthz")


def test_a_burst_of_connections_waits_in_the_kernel() -> None:
    """If the kernel drops the burst instead, health checks wait for a second until their connection is repeated."""
    with open_web_socket(FREE) as sock:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        somaxconn = int(Path("/proc/sys/net/core/somaxconn").read_text())
        # struct tcp_info of a listening socket: tcpi_sacked is its backlog
        assert struct.unpack_from("I", info, 28)[0] == min(4096, somaxconn)
