"""Tests of forwarding for TCP clients: answers in any order, half-closed connections, and disconnected clients."""

from __future__ import annotations

import pytest

from lbdns.server.forwarding import forwarder
from lbdns.server.transport import tcp
from tests.server.clients import ask_udp, tcp_client, until, with_ids
from tests.server.forwarding.relaying import OTHER, OURS, QUERY, Relaying, addresses, relaying
from tests.server.forwarding.upstream import ADDRESS, upstream


async def test_over_tcp_answers_come_as_they_are_ready() -> None:
    async with upstream() as up, relaying(up) as server, tcp_client(server.endpoint) as client:
        up.held.clear()
        queries = [*with_ids(QUERY, [1]), *with_ids(OURS, [2]), *with_ids(OTHER, [3])]
        await client.send(*queries)
        assert (await client.receive())[:2] == b"\0\2"
        await until(lambda: len(up.asked) == 2)
        up.held.set()
        assert {(await client.receive())[:2] for _ in range(2)} == {b"\0\1", b"\0\3"}
        assert addresses(await client.ask(OURS)) == ["127.0.0.16"]


async def test_half_closed_a_connection_gets_what_it_is_owed() -> None:
    async with upstream() as up, relaying(up) as server, tcp_client(server.endpoint) as client:
        up.held.clear()
        await client.send(*with_ids(QUERY, [1]), *with_ids(OURS, [2]), *with_ids(OTHER, [3]))
        client.writer.write_eof()
        assert (await client.receive())[:2] == b"\0\2"
        await until(lambda: len(up.asked) == 2)
        up.held.set()
        assert {(await client.receive())[:2] for _ in range(2)} == {b"\0\1", b"\0\3"}
        assert await client.closed() == b""
        await until(lambda: not server.tcp.connections)


async def test_half_closed_in_the_middle_of_many() -> None:
    count = 3 * tcp.AT_ONCE
    async with upstream() as up, relaying(up) as server, tcp_client(server.endpoint) as client:
        up.held.clear()
        await client.send(*with_ids(QUERY, [999]), *with_ids(OURS, range(count)))
        client.writer.write_eof()
        got = [await client.receive() for _ in range(count)]
        assert [int.from_bytes(answer[:2], "big") for answer in got] == list(range(count))
        up.held.set()
        assert addresses(await client.receive()) == [ADDRESS]
        assert await client.closed() == b""


async def test_over_the_limit_on_a_half_closed_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "MAX_WAITING", 0)
    async with upstream() as up, relaying(up) as server, tcp_client(server.endpoint) as client:
        await client.send(*with_ids(QUERY, [1]), *with_ids(OURS, [2]))
        client.writer.write_eof()
        assert {(await client.receive())[:2] for _ in range(2)} == {b"\0\1", b"\0\2"}
        assert await client.closed() == b""


async def test_an_answer_gives_the_connection_time_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "IDLE", 0.5)
    monkeypatch.setattr(tcp, "SWEEP", 0.02)
    async with upstream() as up, relaying(up) as server, tcp_client(server.endpoint) as client:
        up.held.clear()
        await client.send(QUERY)
        (connection,) = await _connections(server)
        asked_at = connection.deadline
        await until(lambda: up.asked)
        up.held.set()
        await client.receive()
        assert connection.deadline > asked_at
        assert await client.closed() == b"", "and then it is idle"


async def _connections(server: Relaying) -> list[tcp._Connection]:
    await until(lambda: server.count("relayed"))
    return list(server.tcp.connections)


async def test_a_client_that_left() -> None:
    async with upstream() as up, relaying(up) as server:
        up.held.clear()
        async with tcp_client(server.endpoint) as client:
            await client.send(QUERY)
            await until(lambda: up.asked)
        up.held.set()
        await until(lambda: server.count("answered") == 1)
        await until(lambda: not server.tcp.connections)
        assert addresses(await ask_udp(server.endpoint, QUERY)) == [ADDRESS]
