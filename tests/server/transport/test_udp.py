"""Tests of DNS over UDP with real loopback sockets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

import dns.rcode
import pytest

from lbdns.answering.plane import Plane
from lbdns.answering.responder import Client, DeferredAnswer, Responder
from lbdns.counting.response_times import ResponseTimes
from lbdns.server.transport.native_udp import udp_server
from lbdns.server.transport.udp import DRAIN, UdpServer
from lbdns.sockets.dns_sockets import open_udp
from lbdns_shared.endpoint import Endpoint
from tests.answering.asking import make_query, make_responder, read, short
from tests.answering.farms import hobbit
from tests.needs import needs
from tests.planes import PLANES
from tests.server.clients import ask_udp, udp_socket, until, with_ids
from tests.server.namespace import namespace

QUERY = make_query("round.robin.hobbit")


@pytest.fixture(params=PLANES, autouse=True)
def plane(request: pytest.FixtureRequest) -> Iterator[Plane]:
    """Run every test on both planes."""
    _plane.append(request.param)
    yield request.param
    _plane.pop()


_plane: list[Plane] = []


@asynccontextmanager
async def answering(
    host: str = "127.0.0.1", responder: Responder | None = None, sock: socket.socket | None = None
) -> AsyncIterator[UdpServer]:
    sock = sock or open_udp(Endpoint(host, 0))
    server = udp_server(sock, responder or make_responder(hobbit(), _plane[-1]), ResponseTimes())
    loop = asyncio.get_running_loop()
    server.start(loop)
    try:
        yield server
    finally:
        if sock.fileno() >= 0:
            server.stop(loop)


async def test_answers() -> None:
    async with answering() as server:
        for member in ("bilbo", "frodo", "gandalf", "bilbo"):
            message = read(await ask_udp(server.endpoint, QUERY))
            assert short(message.answer)[0][2] == f"{member}.hobbit."


@pytest.mark.parametrize("asked", ["127.0.0.1", "127.0.0.5", "127.10.20.30"])
async def test_bound_to_every_address_the_answer_leaves_from_the_one_that_was_asked(asked: str) -> None:
    async with answering("0.0.0.0") as server:
        # The client's socket is connected: an answer from any other address would never reach it
        assert short(read(await ask_udp(Endpoint(asked, server.endpoint.port), QUERY)).answer)


@needs(ipv6=True)
@pytest.mark.parametrize("host", ["::", "::0", "::1"])
async def test_ipv6(host: str) -> None:
    async with answering(host) as server:
        assert short(read(await ask_udp(Endpoint("::1", server.endpoint.port), QUERY)).answer)


@needs(ipv6=True, namespaces=True, programs=("ip", "unshare"))
@pytest.mark.parametrize("host", ["::", "::0", "0:0:0::"])
async def test_ipv6_answers_leave_from_the_address_that_was_asked(host: str) -> None:
    with namespace("fd00::5/128", "fd00::6/128") as there:
        sock = there.within(lambda: open_udp(Endpoint(host, 0)))
        async with answering(sock=sock) as server:
            for address in ("fd00::5", "fd00::6", "::1"):
                port = server.endpoint.port
                client = there.within(partial(udp_socket, Endpoint(address, port)))
                with client:
                    assert short(read(await first_response(client)).answer)


async def first_response(client: socket.socket) -> bytes:
    """Send a query, again after a second without a response, and return the response."""
    for _ in range(30):
        client.send(QUERY)
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 512), 1)
    raise AssertionError("no response within 30 s")


@needs(ipv6=True)
async def test_ipv6_and_ipv4_share_a_port() -> None:
    async with answering("::") as server, answering("127.0.0.1") as other:
        # V6ONLY: the wildcard of IPv6 leaves IPv4 alone
        with open_udp(Endpoint("127.0.0.1", server.endpoint.port)):
            assert short(read(await ask_udp(other.endpoint, QUERY)).answer)


@pytest.mark.parametrize("size", [0, 1, 11, 4096, 4097, 20_000, 65_000])
async def test_datagrams_of_any_size(size: int) -> None:
    async with answering() as server:
        with udp_socket(server.endpoint) as sock:
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(sock, (QUERY + bytes(size))[:size] if size > len(QUERY) else bytes(size))
            await loop.sock_sendall(sock, QUERY)
            message = read(await asyncio.wait_for(loop.sock_recv(sock, 65535), 60))
            if size >= 12:
                assert message.rcode() == dns.rcode.FORMERR
                message = read(await asyncio.wait_for(loop.sock_recv(sock, 65535), 60))
            assert message.rcode() == dns.rcode.NOERROR


async def test_a_burst_is_answered_whole_and_in_order() -> None:
    async with answering() as server:
        await ask_udp(server.endpoint, QUERY)  # on the slow path, which answers later than the fast path
        count = 3 * DRAIN + 1
        loop = asyncio.get_running_loop()
        with udp_socket(server.endpoint) as sock:
            for query in with_ids(QUERY, range(count)):
                sock.send(query)
            answers = [await asyncio.wait_for(loop.sock_recv(sock, 512), 60) for _ in range(count)]
        assert [int.from_bytes(answer[:2], "big") for answer in answers] == list(range(count))
        assert server._response_times.queries == count + 1


async def test_what_waits_when_it_stops_is_still_answered() -> None:
    async with answering() as server:
        count = 3 * DRAIN + 7
        loop = asyncio.get_running_loop()
        with udp_socket(server.endpoint) as sock:
            for query in with_ids(QUERY, range(count)):
                sock.send(query)
            server.stop(loop)  # before the loop has had a chance to read any
            answers = {await asyncio.wait_for(loop.sock_recv(sock, 512), 60) for _ in range(count)}
        assert len(answers) == count


class Broken(Responder):
    """A responder that raises an exception for every query for one particular name."""

    def respond(self, query: bytes, client: Client, transport: int = 0) -> bytes | DeferredAnswer | None:
        if b"bilbo" in query:
            raise RuntimeError("a mistake of ours")
        return super().respond(query, client, transport)


async def test_a_mistake_costs_its_query_and_one_log_entry(caplog: pytest.LogCaptureFixture) -> None:
    async with answering(responder=Broken(make_responder(hobbit()).table)) as server:
        with udp_socket(server.endpoint) as sock:
            for _ in range(5):
                sock.send(make_query("bilbo.hobbit"))
            sock.send(QUERY)
            answer = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, 512), 60)
        assert short(read(answer).answer)
        assert server.errors.count == 5
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "triggered an exception" in errors[0].message


@needs(root=True)
async def test_what_the_kernel_does_not_take_is_counted() -> None:
    async with answering() as server:
        # From port 0, to which nothing can be sent; only a raw socket can pretend to be there
        datagram = struct.pack("!HHHH", 0, server.endpoint.port, 8 + len(QUERY), 0) + QUERY
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP) as raw:
            for count in (1, 2, 3):
                raw.sendto(datagram, (server.endpoint.host, 0))
                await until(lambda count=count: server.unsent == count)  # type: ignore[misc]
        assert short(read(await ask_udp(server.endpoint, QUERY)).answer)


async def test_nothing_is_sent_in_answer_to_a_response() -> None:
    async with answering() as one, answering() as other:
        # A query that claims to come from a server would make the two talk for ever
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            response = await ask_udp(one.endpoint, QUERY)
            sock.sendto(response, (other.endpoint.host, other.endpoint.port))
            await until(lambda: other._response_times.queries == 1)
            sock.setblocking(False)
            with pytest.raises(BlockingIOError):
                sock.recv(512)
