"""Tests of load shedding: the rule for dropping queries, and a flood mixed with normal queries."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import pytest

from lbdns.answering.plane import Plane
from lbdns.counting.response_times import ResponseTimes
from lbdns.server.transport.load_shedding import FIRST_PATIENCE, HOLD, PATIENCE, SPARED, LoadShedder
from lbdns.server.transport.native_udp import udp_server
from lbdns.server.transport.udp import UdpServer
from lbdns.sockets.dns_sockets import open_udp
from lbdns_shared.endpoint import Endpoint
from tests.answering.asking import make_query, make_responder
from tests.answering.farms import hobbit
from tests.planes import PLANES
from tests.server.clients import PATIENCE as PATIENCE_OF_CLIENTS
from tests.server.clients import udp_socket, until, with_ids

USUAL = make_query("best.hobbit")


def test_a_burst_that_ends_soon_is_no_overload() -> None:
    shedder = LoadShedder()
    shedder.note(False, 100.0)
    shedder.note(False, 100.0 + PATIENCE)
    assert shedder.until <= 100.0 + PATIENCE
    shedder.note(True, 100.1)
    shedder.note(False, 100.2)
    assert shedder.until <= 100.2


def test_a_socket_that_stays_full_is_one_for_a_while() -> None:
    shedder = LoadShedder()
    shedder.note(True, 99.0)
    for step in range(4):
        shedder.note(False, 100.0 + step * PATIENCE)
    assert shedder.until > 101.0
    shedder.note(True, 101.0)
    assert shedder.until > 100.0 + HOLD
    assert shedder.until <= 100.0 + 3 * PATIENCE + HOLD


def test_queries_that_waited_for_the_start_are_no_overload() -> None:
    shedder = LoadShedder()
    shedder.note(False, 100.0)
    shedder.note(False, 100.0 + FIRST_PATIENCE)
    assert shedder.until == 0.0
    shedder.note(False, 100.1 + FIRST_PATIENCE)
    assert shedder.until > 100.1 + FIRST_PATIENCE, "they are too many"
    shedder.note(True, 120.0)
    shedder.note(False, 120.1)
    shedder.note(False, 120.2 + PATIENCE)
    assert shedder.until > 120.2


def test_of_each_batch_some_are_spared() -> None:
    shedder = LoadShedder()
    for _ in range(2):
        assert [shedder.sheds() for _ in range(SPARED + 3)] == [False] * SPARED + [True] * 3
        shedder.note(True, 100.0)
    assert shedder.shed == 6


JUNK = [b"\0" * 12, b"\0\0\0\0\0\1" + bytes(6) + b"\xff" * 20, make_query("nowhere.hobbit")[:-3]]


@asynccontextmanager
async def flooded(plane: Plane) -> AsyncIterator[tuple[UdpServer, socket.socket]]:
    """Run a server, and yield it with the socket of a client."""
    loop = asyncio.get_running_loop()
    with open_udp(Endpoint("127.0.0.1", 0)) as sock:
        server = udp_server(sock, make_responder(hobbit(), plane), ResponseTimes())
        server.start(loop)
        try:
            with udp_socket(server.endpoint) as client:
                yield server, client
        finally:
            server.stop(loop)


async def receive(client: socket.socket) -> bytes:
    return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 512), PATIENCE_OF_CLIENTS)


@pytest.mark.parametrize("plane", PLANES)
async def test_in_a_flood_every_usual_query_is_answered_and_little_else(plane: Plane) -> None:
    async with flooded(plane) as (server, client):
        client.send(USUAL)
        await receive(client)
        for moment in (0.0, 2 * PATIENCE):
            server._note_load(False, monotonic() + moment)
        for junk in JUNK * 20:
            client.send(junk)
        for query in with_ids(USUAL, range(10)):
            client.send(query)
        await until(lambda: server._response_times.queries == 71)
        answers = []
        while True:
            try:
                answers.append(client.recv(512))
            except BlockingIOError:
                break
        usual = [answer for answer in answers if not answer[3] & 0xF]
        assert len(usual) == 10
        assert server.counters()["shed"] > 30
        assert len(answers) + server.counters()["shed"] == 70


@pytest.mark.parametrize("plane", PLANES)
async def test_without_a_flood_nothing_is_let_down(plane: Plane) -> None:
    async with flooded(plane) as (server, client):
        for _ in range(3):
            for junk in JUNK * 20:
                client.send(junk)
            assert [await receive(client) for _ in range(60)]
        assert server.counters()["shed"] == 0
