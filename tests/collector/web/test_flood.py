"""Tests of floods: connection limits, deadlines, malformed requests, and clients that read too slowly."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lbdns_collector.web import connection_gate, connection_limits, event_hub, gated_connection, http_responses
from lbdns_collector.web.access_control import AccessControl
from tests.collector.collector_fixtures import reading, until
from tests.collector.web.served_app import Served, by_name, served


def get(path: str) -> bytes:
    """Return a request for ``path``."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


QUESTION = get("/healthz")
OK = b"HTTP/1.1 200 OK\r\n"
PATIENCE = 60.0
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(web: Served) -> Streams:
    return await asyncio.open_connection(web.server.address.host, web.server.address.port)


async def ask(streams: Streams, question: bytes = QUESTION) -> bytes:
    """Return the status line of a response, or an empty line if the connection was closed."""
    reader, writer = streams
    writer.write(question)
    length = 0
    async with asyncio.timeout(PATIENCE):
        status = await reader.readline()
        while (line := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        await reader.readexactly(length)
    return status


@asynccontextmanager
async def asked(web: Served, question: bytes) -> AsyncIterator[Streams]:
    """Connect and send ``question``; close the connection at the end."""
    reader, writer = await connect(web)
    writer.write(question)
    try:
        async with asyncio.timeout(PATIENCE):
            yield reader, writer
    finally:
        writer.close()


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Return everything that the server sends before it closes or resets the connection."""
    found = b""
    async with asyncio.timeout(PATIENCE):
        with contextlib.suppress(ConnectionResetError):
            while part := await reader.read(65536):
                found += part
    return found


async def is_closed(streams: Streams) -> bool:
    """Return True once the server has closed the connection; fails if it sends anything."""
    assert await rest(streams[0]) == b""
    return True


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> AccessControl:
    """Return access rules for which only the server's own address counts as this machine, not all of 127.0.0.0/8."""
    monkeypatch.setattr(connection_gate, "is_this_machine", str.__eq__)
    return AccessControl()


async def connect_from(web: Served, address: str) -> Streams:
    endpoint = web.server.address
    return await asyncio.open_connection(endpoint.host, endpoint.port, local_addr=(address, 0))


async def test_a_new_connection_replaces_the_longest_waiting_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "MAX_OPEN", 3)
    monkeypatch.setattr(connection_limits, "RESERVED", 0)
    async with served(tmp_path) as web:
        opened = [await connect(web) for _ in range(3)]
        for streams in (*opened, opened[0]):
            assert await ask(streams) == OK
        await until(lambda: web.limits.waiting == 3)
        opened.append(await connect(web))
        assert await ask(opened[3]) == OK
        assert await is_closed(opened[1])
        for _, writer in opened:
            writer.close()


async def test_a_client_over_its_limit_replaces_its_own_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strangers: AccessControl
) -> None:
    monkeypatch.setattr(connection_limits, "SPARE", 1)
    strangers.connections_per_client = 2
    async with served(tmp_path, strangers) as web:
        other = await connect_from(web, "127.0.0.8")
        many = [await connect_from(web, "127.0.0.9") for _ in range(3)]
        assert await is_closed(many[0])
        for streams in (other, *many[1:]):
            assert await ask(streams) == OK


async def test_the_client_with_the_most_connections_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strangers: AccessControl
) -> None:
    monkeypatch.setattr(connection_limits, "MAX_OPEN", 5)
    monkeypatch.setattr(connection_limits, "RESERVED", 1)
    async with served(tmp_path, strangers) as web:
        local = await connect(web)
        few = [await connect_from(web, f"127.0.0.{number}") for number in (8, 9)]
        many = [await connect_from(web, "127.0.0.7") for _ in range(6)]
        for streams in many[:4]:
            assert await is_closed(streams)
        for streams in (local, *few, *many[4:]):
            assert await ask(streams) == OK


async def test_busy_clients_leave_room_for_health_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strangers: AccessControl
) -> None:
    strangers.connections_per_client = 2
    async with served(tmp_path, strangers) as web:
        busy = [await connect_from(web, "127.0.0.9") for _ in range(2)]
        for reader, writer in busy:
            writer.write(get("/api/v1/events"))
            assert await reader.readline() == OK
        more = await connect_from(web, "127.0.0.9")
        assert await ask(more) == OK
        more[1].write(get("/api/v1/status"))
        answer = await rest(more[0])
        assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"connections_per_client" in answer
        other = await connect_from(web, "127.0.0.8")
        assert await ask(other, get("/api/v1/log")) == OK


async def test_busy_clients_leave_room_for_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strangers: AccessControl
) -> None:
    monkeypatch.setattr(connection_limits, "MAX_BUSY", 3)
    monkeypatch.setattr(connection_limits, "RESERVED", 1)
    async with served(tmp_path, strangers) as web:
        opened = [await connect_from(web, f"127.0.0.{number + 7}") for number in range(3)]
        for number, (reader, writer) in enumerate(opened):
            writer.write(get("/api/v1/events"))
            assert (await reader.readline()).split()[1] == (b"200" if number < 2 else b"503")
        local = await connect(web)  # from the server's own address
        assert await ask(local, get("/api/v1/log")) == OK


async def test_a_client_that_sends_too_slowly_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gated_connection, "HEAD_WITHIN", 0.3)
    monkeypatch.setattr(connection_gate, "SWEEP_PERIOD", 0.05)
    readers = AccessControl()
    async with served(tmp_path, readers) as web:
        nothing, little = await connect(web), await connect(web)
        for letter in QUESTION.removesuffix(b"\r\n"):
            little[1].write(bytes([letter]))
            await asyncio.sleep(0.02)
            if readers.refused["slow"]:
                break
        assert await is_closed(nothing)
        async with asyncio.timeout(PATIENCE):
            # A byte was in transit when the server closed the connection
            with contextlib.suppress(ConnectionResetError):
                assert (await little[0].read()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert readers.refused["slow"] == 1
        for _, writer in (nothing, little):
            writer.close()


async def test_idle_connections_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gated_connection, "IDLE_WITHIN", 0.1)
    monkeypatch.setattr(connection_gate, "SWEEP_PERIOD", 0.05)
    async with served(tmp_path) as web:
        streams = await connect(web)
        assert await ask(streams) == OK
        assert await is_closed(streams)


async def test_a_half_sent_head_never_reaches_the_parser(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        opened = [await connect(web) for _ in range(20)]
        for _, writer in opened:
            writer.write(b"GET /api/v1/status HTTP/1.1\r\nX-Half: ")
        await until(lambda: web.limits.waiting == 20)
        serving = web.server._runner.server
        assert serving is not None
        assert not serving.connections
        for _, writer in opened:
            writer.close()


async def test_a_request_with_a_body_is_answered_and_its_body_discarded(tmp_path: Path) -> None:
    readers = AccessControl()
    async with served(tmp_path, readers) as web:
        async with web.session.post(web.url("/api/v1/status"), data=b"x" * 500_000) as response:
            assert response.status == 405
        async with web.session.get(web.url("/healthz")) as response:
            assert response.status == 200
    assert readers.refused["malformed"] == 0


async def test_a_stream_ends_when_its_client_disconnects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, clients that connect and disconnect would take the places of others until the next keep-alive."""
    monkeypatch.setattr(gated_connection, "CLOSE_WITHIN", 0.1)
    monkeypatch.setattr(connection_gate, "SWEEP_PERIOD", 0.05)
    monkeypatch.setattr(event_hub, "PAGE_KEEP_ALIVE", 3600.0)
    async with served(tmp_path) as web:
        for query in ("", "?only=log"):
            async with asked(web, get(f"/api/v1/events{query}")) as (reader, _):
                assert await reader.readline() == OK
                await until(lambda: web.server_streams == 1)
            await until(lambda: web.server_streams == 0)


async def test_a_client_that_closes_its_side_gets_its_response(tmp_path: Path) -> None:
    async with served(tmp_path) as web, asked(web, QUESTION) as (reader, writer):
        writer.write_eof()
        assert (await reader.read()).startswith(OK)


@pytest.mark.parametrize(
    "junk",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / \r\n\r\n",
        b"GET /\n\n",
        b"G@T / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA: \xff\x00\r\n\r\n",
        b"GET //[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://[:/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /%0aforged HTTP/1.1\r\nHost: a\x1b[31m\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
async def test_malformed_requests_are_one_line_each_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, junk: bytes
) -> None:
    readers = AccessControl()
    async with served(tmp_path, readers) as web:
        caplog.clear()
        for _ in range(20):
            async with asked(web, junk) as (reader, _):
                assert (await reader.readline()).split()[1:2] in ([b"400"], [b"404"], [b"421"], [b"505"])
        assert len(caplog.records) <= 1
        for record in caplog.records:
            assert not record.exc_info
            assert "\n" not in record.getMessage()


@given(st.binary(max_size=200), st.booleans())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_cause_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, junk: bytes, request_line: bool
) -> None:
    async def attack() -> None:
        async with served(tmp_path) as web:
            start = b"GET / HTTP/1.1\r\n" if request_line else b""
            async with asked(web, start + junk + b"\r\n\r\n") as (reader, writer):
                writer.write_eof()
                await rest(reader)

    caplog.clear()
    asyncio.run(attack())
    assert not [record for record in caplog.records if record.exc_info or "\n" in record.getMessage()]


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"x" * 9000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: x\r\n" * 100 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"x" * 90_000,
        b"GET / HTTP/1.1\r\n" + b"A: x\r\n" * 20_000,
        b"\x00\x01\x02\r\n\r\n",
    ],
)
async def test_heads_have_limits(tmp_path: Path, head: bytes) -> None:
    async with served(tmp_path) as web, asked(web, head) as (reader, _):
        assert (await reader.read()).startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 ", b"HTTP/1.1 431 "))


async def test_many_requests_at_once_on_one_connection_are_all_answered(tmp_path: Path) -> None:
    async with served(tmp_path) as web, asked(web, QUESTION * 200) as (reader, _):
        for _ in range(200):
            assert await reader.readline() == OK
            await reader.readuntil(b"ok\n")


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
            await loop.sock_sendall(sock, get("/api/v1/status"))
            serving = web.server._runner.server
            assert serving is not None
            await until(lambda: len(serving.connections) == 1)
            await until(lambda: not serving.connections)


async def test_a_client_that_disconnects_while_it_reads_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path) as web:
        web.source.publish(gandalf=reading(alarm="x" * 20_000_000))
        caplog.clear()
        async with asked(web, get("/api/v1/status")) as (reader, writer):
            await reader.readexactly(100)
            writer.transport.abort()
        await until(lambda: not web.limits.connections())
        assert await ask(await connect(web)) == OK
        assert not caplog.records


async def test_a_long_document_arrives_complete(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        text = "x" * 3_000_000
        web.source.publish(gandalf=reading(alarm=text))
        async with web.session.get(web.url("/api/v1/status")) as response:
            document = await response.json()
        assert by_name(document)["gandalf"]["alarm"] == text
        async with web.session.head(web.url("/api/v1/status")) as response:
            assert int(response.headers["Content-Length"]) > len(text)


@pytest.mark.parametrize(
    "question",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nExpect: nothing\r\n\r\n",  # answered by aiohttp itself
        b"PRI * HTTP/2.0\r\n\r\n",  # incomplete for aiohttp's parser
    ],
)
async def test_no_request_keeps_its_place_without_reaching_a_handler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: bytes
) -> None:
    monkeypatch.setattr(gated_connection, "ADMIT_WITHIN", 0.1)
    async with served(tmp_path) as web, asked(web, question) as (reader, _):
        await rest(reader)
        await until(lambda: web.limits.busy == 0)


async def test_an_admitted_request_may_take_as_long_as_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gated_connection, "ADMIT_WITHIN", 0.1)
    async with served(tmp_path) as web, asked(web, get("/api/v1/events")) as (reader, _):
        assert await reader.readline() == OK
        await until(lambda: web.server_streams == 1)
        # Nothing must happen: there is no condition to wait for
        await asyncio.sleep(3 * connection_gate.SWEEP_PERIOD)
        assert (web.server_streams, web.limits.busy) == (1, 1)
