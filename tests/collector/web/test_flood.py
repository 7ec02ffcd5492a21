"""Tests of connection limits: new connections replace idle ones, and slow connections are closed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from pathlib import Path

import pytest

from lbdns_collector.web import http_responses, http_server
from tests.collector.collector_fixtures import reading, until
from tests.collector.web.served_app import Served, by_name, served

QUESTION = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(web: Served) -> Streams:
    return await asyncio.open_connection(web.server.address.host, web.server.address.port)


async def ask(streams: Streams) -> bytes:
    """Return the status line of a response, or an empty line if the connection was closed."""
    reader, writer = streams
    writer.write(QUESTION)
    line = await reader.readline()
    while line and await reader.readline() not in (b"\r\n", b""):
        pass
    if line:
        await reader.readexactly(3)
    return line


async def test_idle_connections_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 3)
    monkeypatch.setattr(http_server, "IDLE", 0.1)
    async with served(tmp_path) as web:
        opened = [await connect(web) for _ in range(3)]
        for streams in opened:
            assert await ask(streams) == b"HTTP/1.1 200 OK\r\n"
        assert await ask(opened[0]) == b"HTTP/1.1 200 OK\r\n"
        opened.append(await connect(web))
        async with asyncio.timeout(10):
            assert await ask(opened[3]) == b"HTTP/1.1 200 OK\r\n"
            assert await opened[1][0].read() == b"", "who has been idle longest"
        for _, writer in opened:
            writer.close()


async def test_event_streams_do_not_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(http_server, "IDLE", 0.0)
    async with served(tmp_path) as web, web.events() as events:
        await events.next()
        for _ in range(3):
            streams = await connect(web)
            async with asyncio.timeout(10):
                assert await ask(streams) == b"HTTP/1.1 200 OK\r\n"
            streams[1].close()
        web.source.publish(gandalf=reading(score=7))
        while (await events.read("status"))["gandalf"]["score"] != 7:
            pass


async def test_a_client_that_sends_too_slowly_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = http_server.REQUEST_WITHIN
    monkeypatch.setattr(http_server, "REQUEST_WITHIN", 0.3)
    async with served(tmp_path) as web:
        nothing, little = await connect(web), await connect(web)
        began = time.monotonic()
        for letter in QUESTION.removesuffix(b"\r\n"):
            little[1].write(bytes([letter]))
            await asyncio.sleep(0.02)
            if little[1].is_closing() or little[0].at_eof():
                break
        async with asyncio.timeout(10):
            assert await nothing[0].read() == b""
            #: a byte was in transit when the server closed the connection
            with contextlib.suppress(ConnectionResetError):
                assert await little[0].read() == b""
        assert time.monotonic() - began < usual / 2
        for _, writer in (nothing, little):
            writer.close()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 9000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: x\r\n" * 100 + b"\r\n",
        b"\x00\x01\x02\r\n\r\n",
    ],
)
async def test_heads_have_limits(tmp_path: Path, head: bytes) -> None:
    async with served(tmp_path) as web:
        reader, writer = await connect(web)
        writer.write(head)
        async with asyncio.timeout(10):
            answer = await reader.read()
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
        writer.close()


async def test_many_requests_at_once_on_one_connection_are_all_answered(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        reader, writer = await connect(web)
        writer.write(QUESTION * 200)
        async with asyncio.timeout(20):
            for _ in range(200):
                assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
                await reader.readuntil(b"ok\n")
        writer.close()


async def test_a_client_that_does_not_read_a_long_document_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_responses, "PATIENCE", 0.2)
    async with served(tmp_path) as web:
        web.source.publish(gandalf=reading(alarm="x" * 20_000_000))
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(sock, (web.server.address.host, web.server.address.port))
            await loop.sock_sendall(sock, b"GET /api/v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
            serving = web.server._runner.server
            assert serving is not None
            await until(lambda: len(serving.connections) == 1)
            await until(lambda: not serving.connections)


async def test_a_long_document_arrives_complete(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        text = "x" * 3_000_000
        web.source.publish(gandalf=reading(alarm=text))
        async with web.session.get(web.url("/api/v1/status")) as response:
            document = await response.json()
        assert by_name(document)["gandalf"]["alarm"] == text
        async with web.session.head(web.url("/api/v1/status")) as response:
            assert int(response.headers["Content-Length"]) > len(text)
