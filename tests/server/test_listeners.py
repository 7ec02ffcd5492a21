"""All sockets together: opened, changed and closed, or left as they were."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lbdns.endpoint import Endpoint
from lbdns.errors import ListenError
from lbdns.server import listen
from lbdns.server import listeners as module
from lbdns.server.durations import Durations
from lbdns.server.listeners import Listeners
from tests.answering.asking import make_query, make_responder, read, short
from tests.answering.farms import hobbit
from tests.server.clients import ask_tcp, ask_udp, tcp_client, until

QUERY = make_query("best.hobbit")
ANY = Endpoint("127.0.0.1", 0)


@asynccontextmanager
async def listening(*endpoints: Endpoint) -> AsyncIterator[Listeners]:
    listeners = Listeners(make_responder(hobbit()), Durations())
    await listeners.listen(endpoints)
    try:
        yield listeners
    finally:
        await listeners.close()
        assert listeners.endpoints == []


async def answers(endpoint: Endpoint) -> bool:
    """Whether DNS is answered there, over UDP and TCP alike."""
    try:
        udp = await ask_udp(endpoint, QUERY)
    except ConnectionRefusedError:
        with pytest.raises(ConnectionRefusedError):
            await ask_tcp(endpoint, QUERY)
        return False
    return bool(short(read(udp).answer) and short(read(await ask_tcp(endpoint, QUERY)).answer))


def free_port() -> int:
    """A port that was free a moment ago, for both."""
    pair = module._open_pair(ANY)
    port: int = pair[0].getsockname()[1]
    for sock in pair:
        sock.close()
    return port


async def test_udp_and_tcp_share_a_port() -> None:
    async with listening(ANY) as listeners:
        assert len(listeners.endpoints) == 1
        assert await answers(listeners.endpoints[0])


async def test_a_port_that_only_udp_can_have_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Endpoint] = []
    open_tcp = listen.open_tcp

    def taken_twice(endpoint: Endpoint) -> socket.socket:
        opened.append(endpoint)
        if len(opened) <= 2:
            with open_tcp(endpoint):
                return open_tcp(endpoint)
        return open_tcp(endpoint)

    monkeypatch.setattr(module, "open_tcp", taken_twice)
    async with listening(ANY) as listeners:
        assert len(opened) == 3
        assert await answers(listeners.endpoints[0])


async def test_changes_open_the_new_and_close_the_old() -> None:
    one, two, three = (Endpoint("127.0.0.1", free_port()) for _ in range(3))
    async with listening(one, two) as listeners:
        kept = listeners._open[two]
        await listeners.listen([two, three, two])
        assert listeners.endpoints == [two, three]
        assert listeners._open[two] is kept
        assert [await answers(endpoint) for endpoint in (one, two, three)] == [False, True, True]


async def test_what_can_not_be_had_changes_nothing() -> None:
    one, two = (Endpoint("127.0.0.1", free_port()) for _ in range(2))
    async with listening(one) as listeners:
        before = dict(listeners._open)
        with pytest.raises(ListenError, match=r"192\.0\.2\.1:5300"):
            await listeners.listen([two, Endpoint("192.0.2.1", 5300)])
        assert listeners._open == before
        assert [await answers(endpoint) for endpoint in (one, two)] == [True, False]


async def test_a_change_that_is_dropped_closes_what_it_opened() -> None:
    one, two = (Endpoint("127.0.0.1", free_port()) for _ in range(2))
    async with listening(one) as listeners:
        change = listeners.prepare([two])
        assert listeners.endpoints == [one]
        change.drop()
        assert [await answers(endpoint) for endpoint in (one, two)] == [True, False]


async def test_what_was_asked_before_a_change_is_carried_out_is_answered() -> None:
    one, two = (Endpoint("127.0.0.1", free_port()) for _ in range(2))
    async with listening(one) as listeners:
        change = listeners.prepare([two])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((two.host, two.port))
            sock.send(QUERY)
            await change.carry_out()
            sock.settimeout(0)
            await until(lambda: listeners._durations.queries)
            assert short(read(sock.recv(512)).answer)


@pytest.mark.parametrize(("now", "then"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "0.0.0.0")])
async def test_going_over_to_an_address_that_overlaps_needs_a_restart(now: str, then: str) -> None:
    port = free_port()
    async with listening(Endpoint(now, port)) as listeners:
        with pytest.raises(ListenError) as caught:
            await listeners.listen([Endpoint(then, port)])
        assert "needs a restart" in str(caught.value)
        assert "another program" not in str(caught.value)
        assert await answers(Endpoint("127.0.0.1", port))


async def test_counts_of_closed_sockets_stay() -> None:
    one, two = (Endpoint("127.0.0.1", free_port()) for _ in range(2))
    async with listening(one) as listeners:
        udp, tcp = listeners._open[one]
        udp.unsent, udp.mistakes.count, tcp.mistakes.count = 3, 2, 5
        assert (listeners.unsent, listeners.failed) == (3, 7)
        await listeners.listen([two])
        assert (listeners.unsent, listeners.failed) == (3, 7)


async def test_connections_of_a_closed_socket_end() -> None:
    one, two = (Endpoint("127.0.0.1", free_port()) for _ in range(2))
    async with listening(one) as listeners, tcp_client(one) as client:
        assert await client.ask(QUERY)
        await listeners.listen([two])
        assert await client.closed() == b""
