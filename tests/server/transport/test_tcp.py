"""Tests of DNS over TCP: segments, deadlines, and misbehaving clients."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections import Counter
from contextlib import AsyncExitStack
from time import perf_counter

import dns.rcode
import pytest

from lbdns.answering.responder import Client, DeferredAnswer, Responder
from lbdns.counting.response_times import ResponseTimes
from lbdns.server.transport import connection_turns, tcp
from lbdns.server.transport.tcp import AT_ONCE, TcpServer
from lbdns.server.transport.udp import UdpServer
from lbdns.sockets.binding import bound_endpoint
from lbdns.sockets.dns_sockets import open_tcp, open_udp
from lbdns_shared.endpoint import Endpoint
from tests.answering.asking import make_query, make_responder, read, short
from tests.answering.farms import hobbit
from tests.server.clients import ask_tcp, ask_udp, framed, tcp_client, until, with_ids
from tests.server.transport.answering_server import LONG, QUERY, answering, ids


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
            assert perf_counter() - began < 30.0
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
        assert 0.15 < perf_counter() - began < 30
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
        sent = 0
        while sent < len(framed(QUERY)) - 1 and (server.connections or not sent):
            client.writer.write(framed(QUERY)[sent : sent + 1])
            sent += 1
            await asyncio.sleep(0.05)
        assert await client.closed() == b""
        assert sent < len(framed(QUERY)) - 1, "the connection is closed while bytes still arrive"


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
                await asyncio.wait_for(ask_for_ever(), 60)
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
                stream += await asyncio.wait_for(loop.sock_recv(sock, 1 << 20), 60)
                while len(stream) >= 2 and len(stream) >= 2 + (length := struct.unpack_from("!H", stream)[0]):
                    found.append(int.from_bytes(stream[2:4], "big"))
                    del stream[: 2 + length]
            await sending
        assert found == list(range(count))


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
