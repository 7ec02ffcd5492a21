"""Tests of the fault that a local answerer reports: a socket that is not read, and a socket that it lacks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.process.apply_configuration import PartlyAppliedError, commit_all
from lbdns.server.dns_service import AnsweringConfiguration
from lbdns.server.local_answerer import LocalAnswerer
from lbdns.server.transport.tcp import TcpServer
from lbdns.server.transport.udp import UdpServer
from lbdns.sockets.binding import bound_endpoint
from lbdns.sockets.dns_sockets import open_pair
from lbdns_shared.endpoint import Endpoint
from tests.answering.asking import client, make_query
from tests.answering.farms import hobbit
from tests.overriding import drains
from tests.server.clients import ask_udp, udp_socket, until


@asynccontextmanager
async def answering() -> AsyncIterator[tuple[LocalAnswerer, Endpoint]]:
    farm = hobbit()
    table = AnswerTable(farm)
    answerer = LocalAnswerer(table)
    assert answerer.fault, "it has no sockets yet"
    udp, tcp = open_pair(Endpoint("127.0.0.1", 0))
    await commit_all([await answerer.prepare(AnsweringConfiguration(farm, table, (), [{1: udp, 2: tcp}]))])
    try:
        assert not answerer.fault
        yield answerer, bound_endpoint(udp)
    finally:
        await answerer.stop()
        udp.close()
        tcp.close()


async def test_a_udp_socket_that_is_not_read() -> None:
    async with answering() as (answerer, here):
        loop = asyncio.get_running_loop()
        (server,) = [each for each in answerer.listeners.servers if isinstance(each, UdpServer)]
        loop.remove_reader(server.sock)
        with udp_socket(here) as client:
            client.send(make_query("best.hobbit"))
            await until(lambda: answerer.fault == f"not reading {here} (UDP)")
            server.start(loop)
            await until(lambda: not answerer.fault)
        assert await ask_udp(here, make_query("best.hobbit"))


async def test_connections_that_are_not_accepted() -> None:
    async with answering() as (answerer, here):
        (server,) = [each for each in answerer.listeners.servers if isinstance(each, TcpServer)]
        asyncio.get_running_loop().remove_reader(server.sock)
        _, writer = await asyncio.open_connection(here.host, here.port)
        await until(lambda: answerer.fault == f"not reading {here} (TCP)")
        writer.close()


async def test_a_socket_that_could_not_be_taken_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering() as (answerer, _):
        farm = hobbit()
        table = answerer.responder.table
        udp, tcp = open_pair(Endpoint("127.0.0.1", 0))

        async def fail(*_: object) -> None:
            raise OSError("no memory")

        monkeypatch.setattr(TcpServer, "start", fail)
        change = await answerer.prepare(AnsweringConfiguration(farm, table, (), [{3: udp, 4: tcp}]))
        monkeypatch.setattr(answerer.listeners, "take_up", fail)
        with pytest.raises(PartlyAppliedError):
            await commit_all([change])
        assert answerer.fault == "not answering on 2 of its sockets"
        udp.close()
        tcp.close()


async def test_after_a_reload_common_queries_take_the_fast_path_at_once() -> None:
    """Otherwise, a busy server would have to drop some of them."""
    async with answering() as (answerer, here):
        query = make_query("best.hobbit")
        assert await ask_udp(here, query)
        farm = hobbit()
        table = AnswerTable(farm)
        sockets = dict.fromkeys(answerer.listeners.numbers)
        (change,) = [await answerer.prepare(AnsweringConfiguration(farm, table, (), [sockets]))]  # type: ignore[list-item]
        await commit_all([change])
        answerer.responder.sheds = lambda: True  # drops whatever needs the slow path
        assert answerer.responder.table is table
        assert answerer.responder.respond(query, client())


async def test_during_a_reload_no_thread_names_a_drained_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads go on as soon as the new table is in place, while the planner still adopts the configuration."""
    async with answering() as (answerer, _):
        answerer.override(drains("bilbo.hobbit"))
        farm = hobbit()
        table, found = AnswerTable(farm), list[Sequence[int]]()

        @contextmanager
        def paused() -> Iterator[None]:
            yield
            found.extend(cursor.order for cursor in table.cursors.values())

        monkeypatch.setattr(answerer.listeners, "paused", paused)
        sockets = dict.fromkeys(answerer.listeners.numbers)
        (change,) = [await answerer.prepare(AnsweringConfiguration(farm, table, (), [sockets]))]  # type: ignore[list-item]
        await commit_all([change])
        assert found
        assert all(set(order) == {1, 2} for order in found)


async def test_answers_of_threads_count_while_the_planner_adopts_a_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with answering() as (answerer, _):
        farm = hobbit()
        table = AnswerTable(farm)

        @contextmanager
        def paused() -> Iterator[None]:
            yield
            for _ in range(5):
                table.cursors["web", "best"].next()

        answerer.responder.table.cursors["web", "best"].next()
        monkeypatch.setattr(answerer.listeners, "paused", paused)
        sockets = dict.fromkeys(answerer.listeners.numbers)
        (change,) = [await answerer.prepare(AnsweringConfiguration(farm, table, (), [sockets]))]  # type: ignore[list-item]
        await commit_all([change])
        assert answerer.planner.answers()["web", "best"] == 6
