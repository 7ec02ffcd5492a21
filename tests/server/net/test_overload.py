"""Who is let down when more arrives than can be answered: the rule by itself, and a flood beside usual queries."""

from __future__ import annotations

import socket

import pytest

from lbdns.answering.plane import Plane
from lbdns.endpoint import Endpoint
from lbdns.server.net.durations import Durations
from lbdns.server.net.listen import open_udp
from lbdns.server.net.overload import HOLD, PATIENCE, SPARED, Overload
from lbdns.server.net.udp import UdpServer
from tests.answering.asking import make_query, make_responder
from tests.answering.farms import hobbit
from tests.planes import PLANES
from tests.server.clients import with_ids

USUAL = make_query("best.hobbit")


def test_a_burst_that_ends_soon_is_no_overload() -> None:
    overload = Overload()
    overload.note(False, 100.0)
    overload.note(False, 100.0 + PATIENCE)
    assert not overload.begin(100.0 + PATIENCE)
    overload.note(True, 100.1)
    overload.note(False, 100.2)
    assert not overload.begin(100.2)


def test_a_socket_that_stays_full_is_one_for_a_while() -> None:
    overload = Overload()
    for step in range(4):
        overload.note(False, 100.0 + step * PATIENCE)
    assert overload.begin(101.0)
    overload.note(True, 101.0)
    assert overload.begin(100.0 + HOLD)
    assert not overload.begin(100.0 + 3 * PATIENCE + HOLD)


def test_of_each_batch_some_are_spared() -> None:
    overload = Overload()
    for _ in range(2):
        overload.begin(100.0)
        assert [overload.sheds() for _ in range(SPARED + 3)] == [False] * SPARED + [True] * 3
    assert overload.shed == 6


JUNK = [b"\0" * 12, b"\0\0\0\0\0\1" + bytes(6) + b"\xff" * 20, make_query("nowhere.hobbit")[:-3]]


@pytest.mark.parametrize("plane", PLANES)
def test_in_a_flood_every_usual_query_is_answered_and_little_else(plane: Plane) -> None:
    responder = make_responder(hobbit(), plane)
    with open_udp(Endpoint("127.0.0.1", 0)) as sock, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        server = UdpServer(sock, responder, Durations())
        client.connect(("127.0.0.1", server.endpoint.port))
        client.setblocking(False)
        client.send(USUAL)
        server._drain()
        client.recv(512)
        for moment in (0.0, 2 * PATIENCE):
            server.overload.note(False, responder.now + moment)
        for junk in JUNK * 20:
            client.send(junk)
        for query in with_ids(USUAL, range(10)):
            client.send(query)
        while server._drain():
            pass
        answers = []
        while True:
            try:
                answers.append(client.recv(512))
            except BlockingIOError:
                break
        usual = [answer for answer in answers if not answer[3] & 0xF]
        assert len(usual) == 10
        assert server.overload.shed > 30
        assert len(answers) + server.overload.shed == 70


@pytest.mark.parametrize("plane", PLANES)
def test_without_a_flood_nothing_is_let_down(plane: Plane) -> None:
    with open_udp(Endpoint("127.0.0.1", 0)) as sock, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        server = UdpServer(sock, make_responder(hobbit(), plane), Durations())
        client.connect(("127.0.0.1", server.endpoint.port))
        for _ in range(3):
            for junk in JUNK * 20:
                client.send(junk)
            for _ in range(3):
                server._drain()
            assert [client.recv(512) for _ in range(60)]
        assert server.overload.shed == 0
