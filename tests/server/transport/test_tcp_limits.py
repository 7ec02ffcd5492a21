"""Tests of the limits of DNS over TCP: connections per network, memory, descriptors, and the backlog."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from contextlib import AsyncExitStack, ExitStack

import pytest

from lbdns.server.transport import buffered_bytes, tcp
from lbdns.server.transport.tcp import TcpServer
from lbdns.sockets.dns_sockets import BACKLOG
from lbdns_shared.endpoint import Endpoint
from tests.server.clients import PATIENCE, framed, tcp_client, until
from tests.server.transport.answering_server import LONG, QUERY, answering, ids
from tests.shortage import no_descriptors_left


async def test_one_address_has_its_share_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "MAX_PER_NETWORK", 3)
    async with answering() as server, AsyncExitStack() as stack:
        one, two, three = [await stack.enter_async_context(tcp_client(server.endpoint)) for _ in range(3)]
        other = await stack.enter_async_context(tcp_client(server.endpoint, "127.0.0.9"))
        for client in (one, other, three):
            await client.ask(QUERY)  # now two has been idle longest
        four = await stack.enter_async_context(tcp_client(server.endpoint))
        assert await two.closed() == b""
        for client in (one, three, four, other):
            assert await client.ask(QUERY)
        assert server.closed_early == 1


class StubTransport(asyncio.Transport):
    """A transport of a client with this address, without a socket."""

    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 5, 0, 0)})
        self.aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.aborted = True


async def test_the_addresses_of_one_ipv6_network_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "MAX_PER_NETWORK", 3)
    async with answering() as server:
        transports = [StubTransport(f"2001:db8::{number}") for number in range(1, 5)]
        transports += [StubTransport(address) for address in ("2001:db8:0:1::1", "192.0.2.1", "192.0.2.2")]
        for transport in transports:
            tcp._Connection(server, asyncio.get_running_loop()).connection_made(transport)
        assert [transport.aborted for transport in transports] == [True] + 6 * [False]
        for connection in list(server.connections):
            connection.connection_lost(None)
        assert not server._per_network


async def flood(server: TcpServer, clients: int, query: bytes) -> list[socket.socket]:
    """Open connections that send queries until the server reads no more, and never read a response."""
    socks = []
    for _ in range(clients):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        sock.connect((server.endpoint.host, server.endpoint.port))
        sock.setblocking(False)
        socks.append(sock)
    message, idle = framed(query) * 50, 0
    while idle < 20:
        sent = 0
        for sock in socks:
            with contextlib.suppress(OSError):
                sent += sock.send(message)
        idle = 0 if sent else idle + 1
        await asyncio.sleep(0)
    return socks


async def test_who_does_not_read_holds_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "SLOW_READER", 600.0)
    async with answering() as server:
        await until(lambda: server.sock.fileno() >= 0)
        socks = await flood(server, 3, LONG)
        limit = tcp.READ_AT_ONCE + tcp.UNREAD + tcp.WRITE_AT_ONCE + 2**16
        assert len(server.connections) == 3
        assert all(0 < connection.buffered <= limit for connection in server.connections)
        assert server.buffered.total == sum(connection.buffered for connection in server.connections)
        for sock in socks:
            sock.close()
        await until(lambda: not server.connections)
        assert server.buffered.total == 0


async def test_all_who_do_not_read_hold_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "SLOW_READER", 600.0)
    monkeypatch.setattr(buffered_bytes, "MAX_BUFFERED", 100_000)
    async with answering() as server:
        socks = await flood(server, 12, LONG)
        assert 0 < sum(connection.buffered for connection in server.connections) <= 100_000
        assert server.closed_early > 0
        async with tcp_client(server.endpoint) as other:
            assert await other.ask(QUERY), "a client that reads is answered"
        for sock in socks:
            sock.close()


async def test_all_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "MAX_CONNECTIONS", 4)
    async with answering() as server, AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(tcp_client(server.endpoint, f"127.0.1.{number}")) for number in range(1, 5)
        ]
        for client in (clients[1], clients[0], clients[2], clients[3]):
            await client.ask(QUERY)
        late = await stack.enter_async_context(tcp_client(server.endpoint, "127.0.1.9"))
        assert await clients[1].closed() == b""
        for client in (clients[0], clients[2], clients[3], late):
            assert await client.ask(QUERY)
        assert len(server.connections) == 4


async def exchange(sock: socket.socket, endpoint: Endpoint) -> bytes:
    """Connect, send a query and return its response. Needs no further descriptor."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(PATIENCE):
        await loop.sock_connect(sock, (endpoint.host, endpoint.port))
        await loop.sock_sendall(sock, framed(QUERY))
        return (await loop.sock_recv(sock, 65535))[2:]


def client_sockets(stack: ExitStack, count: int) -> list[socket.socket]:
    found = [stack.enter_context(socket.socket()) for _ in range(count)]
    for sock in found:
        sock.setblocking(False)
    return found


async def test_without_free_descriptors_clients_are_answered_one_after_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with answering() as server:
        with ExitStack() as stack:
            socks = client_sockets(stack, 20)
            with no_descriptors_left():
                for sock in socks:
                    assert ids([await exchange(sock, server.endpoint)]) == [0x1234]
                    sock.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_without_free_descriptors_idle_connections_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "SPARED", 0.1)
    async with answering() as server:
        with ExitStack() as stack:
            idle, later = client_sockets(stack, 30), client_sockets(stack, 10)
            with no_descriptors_left() as held:
                for _ in range(5):
                    os.close(held.pop())
                loop = asyncio.get_running_loop()
                for sock in idle:
                    await loop.sock_connect(sock, (server.endpoint.host, server.endpoint.port))
                for sock in later:
                    assert ids([await exchange(sock, server.endpoint)]) == [0x1234]


async def test_the_kernel_queues_as_many_connections_as_we_say() -> None:
    async with answering() as server:
        info = server.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        # struct tcp_info of a listening socket: tcpi_sacked is its backlog
        somaxconn = int(open("/proc/sys/net/core/somaxconn").read())  # noqa: SIM115, ASYNC230
        assert struct.unpack_from("I", info, 28)[0] == min(BACKLOG, somaxconn)
