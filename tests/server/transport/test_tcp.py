"""Tests of DNS over TCP: segments, limits, and misbehaving clients."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from time import perf_counter

import dns.rcode
import pytest

from lbdns.answering.responder import Client, DeferredAnswer, Responder
from lbdns.counting.response_times import ResponseTimes
from lbdns.server.transport import buffered_bytes, connection_turns, tcp
from lbdns.server.transport.tcp import AT_ONCE, TcpServer
from lbdns.server.transport.udp import UdpServer
from lbdns.sockets.binding import bound_endpoint
from lbdns.sockets.dns_sockets import BACKLOG, open_tcp, open_udp
from lbdns_shared.endpoint import Endpoint
from tests.answering.asking import make_query, make_responder, read, short
from tests.answering.farms import hobbit
from tests.server.clients import PATIENCE, ask_tcp, ask_udp, framed, tcp_client, until, with_ids
from tests.shortage import no_descriptors_left

QUERY = make_query("round.robin.hobbit")
LONG = make_query("huge.hobbit", "TXT")


@asynccontextmanager
async def answering(responder: Responder | None = None) -> AsyncIterator[TcpServer]:
    server = TcpServer(open_tcp(Endpoint("127.0.0.1", 0)), responder or make_responder(hobbit()), ResponseTimes())
    await server.start(asyncio.get_running_loop())
    try:
        yield server
    finally:
        await server.stop()
        await until(lambda: not server.connections)
        assert not server._per_network


def ids(answers: list[bytes]) -> list[int]:
    return [int.from_bytes(answer[:2], "big") for answer in answers]


async def test_answers_several_on_one_connection() -> None:
    async with answering() as server, tcp_client(server.endpoint) as client:
        members = [short(read(await client.ask(QUERY)).answer)[0][2] for _ in range(4)]
        assert members == ["bilbo.hobbit.", "frodo.hobbit.", "gandalf.hobbit.", "bilbo.hobbit."]
        assert server.response_times.queries == 4


async def test_many_messages_in_one_segment() -> None:
    async with answering() as server, tcp_client(server.endpoint) as client:
        await client.send(*with_ids(QUERY, range(20)))
        assert ids([await client.receive() for _ in range(20)]) == list(range(20))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_one_message_in_many_segments(size: int) -> None:
    async with answering() as server, tcp_client(server.endpoint) as client:
        client.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        whole = framed(QUERY) + framed(with_ids(QUERY, [7])[0])
        for at in range(0, len(whole), size):
            client.writer.write(whole[at : at + size])
            await asyncio.sleep(0)
        assert ids([await client.receive(), await client.receive()]) == [0x1234, 7]


async def test_half_closed_it_still_gets_its_answers() -> None:
    count = 3 * AT_ONCE + 5
    async with answering() as server, tcp_client(server.endpoint) as client:
        await client.send(*with_ids(QUERY, range(count)))
        client.writer.write_eof()
        assert ids([await client.receive() for _ in range(count)]) == list(range(count))
        assert await client.closed() == b""


async def test_half_closed_at_once_without_a_query() -> None:
    async with answering() as server, tcp_client(server.endpoint) as client:
        client.writer.write_eof()
        assert await client.closed() == b""


async def test_a_thousand_pipelined_queries_and_udp_in_between() -> None:
    async with answering() as server:
        udp = UdpServer(open_udp(Endpoint("127.0.0.1", 0)), server.responder, ResponseTimes())
        loop = asyncio.get_running_loop()
        udp.start(loop)
        async with tcp_client(server.endpoint) as client:
            client.writer.write(b"".join(map(framed, with_ids(QUERY, range(1000)))))
            answers: list[bytes] = []

            async def collect() -> None:
                answers.extend([await client.receive() for _ in range(1000)])

            collecting = loop.create_task(collect())
            await until(lambda: server.response_times.queries)
            began = perf_counter()
            assert short(read(await ask_udp(udp.endpoint, QUERY)).answer)
            assert perf_counter() - began < 1.0
            await collecting
        assert ids(answers) == list(range(1000))
        udp.stop(loop)


async def test_a_connection_full_of_queries_leaves_others_their_turn() -> None:
    async with answering() as server, tcp_client(server.endpoint) as greedy:
        order: list[str] = []

        class Noting(Responder):
            def respond(self, query: bytes, client: Client, transport: int = 0) -> bytes | DeferredAnswer | None:
                order.append("other" if query == QUERY else "greedy")
                return super().respond(query, client, transport)

        server.respond = Noting(server.responder.table).respond
        await greedy.send(*with_ids(QUERY, range(20 * AT_ONCE)))
        await ask_tcp(server.endpoint, QUERY)
        await until(lambda: len(order) == 20 * AT_ONCE + 1)
        assert order.index("other") < 20 * AT_ONCE, "not only after all of the greedy one's"


async def test_connections_full_of_queries_share_each_iteration_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_turns, "TURNS", 1e-9)  # used up by the first connection, however fast the machine
    loop, iteration, answered = asyncio.get_running_loop(), 0, Counter[int]()

    def count() -> None:
        nonlocal iteration
        iteration += 1
        loop.call_soon(count)

    async with answering() as server, AsyncExitStack() as stack:
        respond = server.responder.respond

        def noting(query: bytes, client: Client, transport: int = 0) -> bytes | DeferredAnswer | None:
            answered[iteration] += 1
            return respond(query, client, transport)

        server.respond = noting
        clients = [await stack.enter_async_context(tcp_client(server.endpoint)) for _ in range(8)]
        count()
        for client in clients:
            await client.ask(QUERY)  # the server has accepted the connection
        answered.clear()
        for client in clients:  # all are readable in the same iteration
            client.writer.write(b"".join(framed(query) for query in with_ids(QUERY, range(4 * AT_ONCE))))
        for client in clients:
            assert ids([await client.receive() for _ in range(4 * AT_ONCE)]) == list(range(4 * AT_ONCE))
    assert answered.total() == 8 * 4 * AT_ONCE
    assert max(answered.values()) <= 2 * AT_ONCE  # one turn before the counter's own call, and one after it


@pytest.mark.parametrize(
    "garbage",
    [b"\0\0" * 50, framed(b"\0" * 11) * 3, framed(b"\xff" * 200), framed(b"x")],
    ids=["zero-length frames", "less than a header", "a response", "one byte"],
)
async def test_what_gets_no_answer_does_not_end_the_connection(garbage: bytes) -> None:
    async with answering() as server, tcp_client(server.endpoint) as client:
        client.writer.write(garbage)
        assert ids([await client.ask(QUERY)]) == [0x1234]


async def test_what_is_no_query_gets_its_error() -> None:
    async with answering() as server, tcp_client(server.endpoint) as client:
        assert read(await client.ask(b"\0\7" + b"\1\0" + bytes(8) + b"!" * 3000)).rcode() == dns.rcode.FORMERR


async def test_a_frame_of_65535_bytes() -> None:
    async with answering() as server, tcp_client(server.endpoint) as client:
        message = read(await client.ask(QUERY + bytes(65535 - len(QUERY))))
        assert message.rcode() == dns.rcode.FORMERR
        assert ids([await client.ask(QUERY)]) == [0x1234]


async def test_a_protocol_that_is_not_dns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "PARTIAL", 0.1)
    monkeypatch.setattr(tcp, "SWEEP", 0.02)
    async with answering() as server, tcp_client(server.endpoint) as client:
        client.writer.write(b"GET / HTTP/1.1\r\nHost: best.hobbit\r\n\r\n")
        assert await client.closed() == b""
        assert server.closed_early == 1


# Limits


async def test_who_asks_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "IDLE", 0.2)
    monkeypatch.setattr(tcp, "SWEEP", 0.02)
    async with answering() as server, tcp_client(server.endpoint) as silent, tcp_client(server.endpoint) as once:
        began = perf_counter()
        assert await once.ask(QUERY)
        assert await silent.closed() == b""
        assert await once.closed() == b""
        assert 0.15 < perf_counter() - began < 5
        assert server.closed_early == 0, "that is no misbehaviour"


@pytest.mark.parametrize("sent", [b"\0", b"\0\x21", framed(QUERY)[:-1], framed(QUERY) + b"\0"])
async def test_who_does_not_finish_a_message_is_closed(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "PARTIAL", 0.1)
    monkeypatch.setattr(tcp, "IDLE", 60.0)
    monkeypatch.setattr(tcp, "SWEEP", 0.02)
    async with answering() as server, tcp_client(server.endpoint) as client:
        client.writer.write(sent)
        answers = await client.closed()
        assert bool(answers) is sent.startswith(framed(QUERY)), "what was whole is answered"
        assert server.closed_early == 1


async def test_byte_by_byte_gains_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "PARTIAL", 0.2)
    monkeypatch.setattr(tcp, "SWEEP", 0.02)
    async with answering() as server, tcp_client(server.endpoint) as client:
        began = perf_counter()
        for at in range(len(framed(QUERY)) - 1):
            if not server.connections and at:
                break
            client.writer.write(framed(QUERY)[at : at + 1])
            await asyncio.sleep(0.05)
        assert await client.closed() == b""
        assert perf_counter() - began < 1.2


async def test_who_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "SLOW_READER", 0.2)
    monkeypatch.setattr(tcp, "PARTIAL", 60.0)
    monkeypatch.setattr(tcp, "IDLE", 60.0)
    monkeypatch.setattr(tcp, "SWEEP", 0.02)
    async with answering() as server:
        loop = asyncio.get_running_loop()
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            await loop.sock_connect(sock, (server.endpoint.host, server.endpoint.port))

            async def ask_for_ever() -> None:
                while True:
                    await loop.sock_sendall(sock, framed(LONG) * 100)

            with pytest.raises(ConnectionError):
                await asyncio.wait_for(ask_for_ever(), 10)
        await until(lambda: not server.connections)
        assert server.closed_early == 1


async def test_who_reads_late_gets_everything() -> None:
    count = 1500  # 6 MB of answers: more than all buffers on the way hold
    async with answering() as server:
        loop = asyncio.get_running_loop()
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            await loop.sock_connect(sock, (server.endpoint.host, server.endpoint.port))
            sending = loop.create_task(loop.sock_sendall(sock, b"".join(map(framed, with_ids(LONG, range(count))))))
            await until(lambda: any(connection._full for connection in server.connections))
            stream = bytearray()
            found: list[int] = []
            while len(found) < count:
                stream += await asyncio.wait_for(loop.sock_recv(sock, 1 << 20), 5)
                while len(stream) >= 2 and len(stream) >= 2 + (length := struct.unpack_from("!H", stream)[0]):
                    found.append(int.from_bytes(stream[2:4], "big"))
                    del stream[: 2 + length]
            await sending
        assert found == list(range(count))


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


class Broken(Responder):
    """A responder that raises an exception for every query for one particular name."""

    def respond(self, query: bytes, client: Client, transport: int = 0) -> bytes | DeferredAnswer | None:
        if b"bilbo" in query:
            raise RuntimeError("a mistake of ours")
        return super().respond(query, client, transport)


async def test_a_mistake_costs_its_query_and_one_log_entry(caplog: pytest.LogCaptureFixture) -> None:
    async with answering(Broken(make_responder(hobbit()).table)) as server, tcp_client(server.endpoint) as client:
        await client.send(*[make_query("bilbo.hobbit")] * (AT_ONCE + 3))
        assert ids([await client.ask(QUERY)]) == [0x1234]
        assert server.errors.count == AT_ONCE + 3
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "triggered an exception" in errors[0].message


async def test_stopping_closes_everything() -> None:
    server = TcpServer(open_tcp(Endpoint("127.0.0.1", 0)), make_responder(hobbit()), ResponseTimes())
    await server.start(asyncio.get_running_loop())
    endpoint = bound_endpoint(server.sock)
    async with tcp_client(endpoint) as client:
        assert await client.ask(QUERY)
        await server.stop()
        assert await client.closed() == b""
        with pytest.raises(ConnectionRefusedError):
            await ask_tcp(endpoint, QUERY)
