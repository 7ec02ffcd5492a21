"""Tests of the sockets of one process: opening and closing sockets loses no data that has already arrived."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lbdns.counting.response_times import ResponseTimes
from lbdns.server.transport.listeners import Listeners, receive_no_more
from lbdns.server.transport.tcp import TcpServer
from lbdns.server.transport.udp import UdpServer
from lbdns.sockets.binding import bound_endpoint, overflows
from lbdns.sockets.dns_sockets import open_pair, open_udp
from lbdns_shared.endpoint import Endpoint
from tests.answering.asking import make_query, make_responder, read, short
from tests.answering.farms import hobbit
from tests.needs import needs
from tests.server.clients import ask_tcp, ask_udp, tcp_client, until

QUERY = make_query("best.hobbit")
ANY = Endpoint("127.0.0.1", 0)


def nobody(*_: object) -> None:
    raise AssertionError("an errand without a transfer or a relay")


def pair(endpoint: Endpoint = ANY) -> tuple[Endpoint, dict[int, socket.socket]]:
    """Return the address of a new pair of sockets (UDP and TCP), and the sockets, keyed by the numbers 1 and 2."""
    udp, tcp = open_pair(endpoint)
    return bound_endpoint(udp), {1: udp, 2: tcp}


@asynccontextmanager
async def listening(sockets: dict[int, socket.socket]) -> AsyncIterator[Listeners]:
    listeners = Listeners(make_responder(hobbit()), ResponseTimes(), nobody)
    await listeners.take_up(sockets)
    try:
        yield listeners
    finally:
        await listeners.close()
        assert listeners.numbers == set()


async def test_answers_on_every_socket_until_it_is_left() -> None:
    here, sockets = pair()
    async with listening(sockets) as listeners:
        assert listeners.numbers == {1, 2}
        assert short(read(await ask_udp(here, QUERY)).answer)
        assert short(read(await ask_tcp(here, QUERY)).answer)
        await listeners.leave({1}, for_good=True)
        with pytest.raises(ConnectionRefusedError):
            await ask_udp(here, QUERY)
        assert short(read(await ask_tcp(here, QUERY)).answer)
        await listeners.leave({2}, for_good=True)
        with pytest.raises(ConnectionRefusedError):
            await ask_tcp(here, QUERY)


@pytest.mark.parametrize("for_good", [True, False])
async def test_what_waits_in_a_socket_is_answered_before_it_is_left(for_good: bool) -> None:
    here, sockets = pair()
    async with listening(sockets) as listeners:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect((here.host, here.port))
            client.send(QUERY)
            await listeners.leave({1}, for_good=for_good)
            client.settimeout(0)
            assert short(read(client.recv(512)).answer)


async def test_a_socket_that_is_not_left_for_good_serves_others() -> None:
    here, sockets = pair()
    others = sockets[1].dup()
    async with listening(sockets) as listeners:
        await listeners.leave({1}, for_good=False)
        async with listening({7: others}):
            assert short(read(await ask_udp(here, QUERY)).answer)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "0.0.0.0", pytest.param("::1", marks=needs(ipv6=True)), pytest.param("::", marks=needs(ipv6=True))],
)
def test_nothing_more_arrives_in_a_socket_that_is_to_be_closed(host: str) -> None:
    with open_udp(Endpoint(host, 0)) as leaving, socket.socket(leaving.family, socket.SOCK_DGRAM) as client:
        port = bound_endpoint(leaving).port
        leaving.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        with open_udp(Endpoint(host, port), beside=True) as staying:
            to = ("::1" if ":" in host else "127.0.0.1", port)
            client.sendto(b"before", to)
            before = [sock for sock in (leaving, staying) if received(sock, peek=True)]
            assert len(before) == 1
            receive_no_more(leaving)
            assert received(before[0]) == [b"before"], "what was there stays"
            for number in range(50):  # from many ports, so that some were meant for either
                with socket.socket(leaving.family, socket.SOCK_DGRAM) as other:
                    other.sendto(b"%d" % number, to)
            assert received(leaving) == []
            assert received(staying) == [b"%d" % number for number in range(50)]


def received(sock: socket.socket, peek: bool = False) -> list[bytes]:
    found = []
    try:
        while True:
            found.append(sock.recv(100, socket.MSG_PEEK if peek else 0))
            if peek:
                return found
    except BlockingIOError:
        return found


async def test_counts_of_closed_sockets_stay() -> None:
    _, sockets = pair()
    async with listening(sockets) as listeners:
        udp, tcp = listeners._open[1], listeners._open[2]
        assert isinstance(udp, UdpServer)
        assert isinstance(tcp, TcpServer)
        udp._unsent, udp.errors.count, tcp.errors.count, tcp.closed_early, tcp.accepted = 3, 2, 5, 4, 6
        counted = {"unsent": 3, "failed": 7, "tcp_closed_early": 4, "tcp_accepted": 6}
        assert listeners.counters() == counted
        await listeners.leave({1}, for_good=True)
        assert listeners.counters() == counted
        await listeners.leave({2}, for_good=False)
        assert listeners.counters() == counted


async def test_connections_are_counted() -> None:
    here, sockets = pair()
    async with listening(sockets) as listeners:
        for count in (1, 2):
            async with tcp_client(here) as client:
                assert await client.ask(QUERY)
                assert listeners.levels() == {"tcp_open": 1}
                assert listeners.counters() == {"tcp_accepted": count}
            await until(lambda: listeners.levels() == {"tcp_open": 0})


async def test_queries_that_the_kernel_drops_are_counted() -> None:
    """Drops that occur while another process holds the socket are not counted."""
    here, sockets = pair()
    overflow(sockets[1], here)
    before = overflows(sockets[1])
    assert before > 0
    while received(sockets[1]):
        pass
    async with listening(sockets) as listeners:
        assert listeners.counters() == {}
        overflow(sockets[1], here)
        now = listeners.counters()["udp_overflows"]
        assert now == overflows(sockets[1]) - before > 0
        await listeners.leave({1}, for_good=False)
        assert listeners.counters()["udp_overflows"] == now, "counted once its socket is closed too"


def overflow(sock: socket.socket, to: Endpoint) -> None:
    """Send more datagrams to a socket than fit in its buffer. On loopback, the kernel drops the excess immediately."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with socket.socket(sock.family, socket.SOCK_DGRAM) as other:
        for _ in range(200):
            other.sendto(QUERY, (to.host, to.port))


async def test_connections_of_a_closed_socket_end() -> None:
    here, sockets = pair()
    async with listening(sockets) as listeners, tcp_client(here) as client:
        assert await client.ask(QUERY)
        await listeners.leave({2}, for_good=True)
        assert await client.closed() == b""


async def test_what_was_asked_before_a_socket_is_taken_up_is_answered() -> None:
    here, sockets = pair()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect((here.host, here.port))
        client.send(QUERY)
        client.settimeout(0)
        async with listening(sockets) as listeners:
            await until(lambda: listeners._response_times.queries)
            assert short(read(client.recv(512)).answer)
