"""Tests of the thread that answers common queries without the interpreter, on real loopback sockets."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.plane import NativePlane
from lbdns.counting.response_times import ResponseTimes
from lbdns.policies.plan import Plan
from lbdns.server.transport import native_udp
from lbdns.server.transport.native_udp import THREAD_NAME, NativeUdpServer
from lbdns.sockets.dns_sockets import open_udp
from lbdns.sockets.read_watch import ReadWatch
from lbdns_shared.endpoint import Endpoint
from tests.answering.asking import make_query, make_responder, read, short
from tests.answering.farms import hobbit
from tests.needs import needs
from tests.server.clients import PATIENCE, ask_udp, udp_socket, until, with_ids

pytestmark = needs(native=True)

QUERY = make_query("round.robin.hobbit")
UNCOMMON = make_query("nowhere.hobbit")


@asynccontextmanager
async def answering() -> AsyncIterator[NativeUdpServer]:
    """Run a server that answers QUERY on the fast path."""
    loop = asyncio.get_running_loop()
    server = NativeUdpServer(
        open_udp(Endpoint("127.0.0.1", 0)), make_responder(hobbit(), NativePlane()), ResponseTimes()
    )
    server.start(loop)
    try:
        await ask_udp(server.endpoint, QUERY)
        yield server
    finally:
        if server.fileno() >= 0:
            server.stop(loop)


@pytest.fixture
def blocking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the lease end soon."""
    monkeypatch.setattr(native_udp, "LEASE", 0.3)
    monkeypatch.setattr(native_udp, "RENEWAL", 0.05)


def block(seconds: float) -> None:
    """Keep the event loop from running."""
    time.sleep(seconds)


def ask_while_the_event_loop_waits(server: NativeUdpServer, query: bytes = QUERY, patience: float = PATIENCE) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect((server.endpoint.host, server.endpoint.port))
        client.settimeout(patience)
        client.send(query)
        return client.recv(512)


async def test_answers_while_the_event_loop_is_busy() -> None:
    async with answering() as server:
        begun, reads = server.reads, server.slow_path.reads
        for query in with_ids(QUERY, range(5)):
            assert short(read(ask_while_the_event_loop_waits(server, query)).answer)
        assert server.reads == begun + 5
        assert server._response_times.queries == 6, "an answer that has arrived is counted"
        assert sum(server._responder.table.cursors["web", "round_robin"].totals()) == 6
        assert server.slow_path.reads == reads


async def test_follows_plans_that_nobody_renews_only_for_a_while(blocking: None) -> None:
    async with answering() as server:
        block(0.4)  # the lease is not renewed
        with udp_socket(server.endpoint) as client:
            client.send(QUERY)
            block(0.2)
            with pytest.raises(BlockingIOError):
                client.recv(512)
            answer = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 512), PATIENCE)
            assert short(read(answer).answer), "it has waited in the socket"


async def test_a_server_whose_lease_has_ended_stops_without_losing_a_query(blocking: None) -> None:
    async with answering() as server:
        block(0.4)
        with udp_socket(server.endpoint) as client:
            for query in (QUERY, UNCOMMON):
                client.send(query)
            server.stop(asyncio.get_running_loop())
            assert [client.recv(512)[3] & 0xF for _ in range(2)] == [0, 3]


async def test_paused_it_answers_nothing_and_then_from_the_new_table() -> None:
    async with answering() as server:
        responder = server._responder
        table = AnswerTable(hobbit(), NativePlane())
        with udp_socket(server.endpoint) as client:
            server.pause()
            for query in with_ids(QUERY, range(3)):
                client.send(query)
            block(0.1)
            with pytest.raises(BlockingIOError):
                client.recv(512)
            table.take_over(responder.table)
            table.cursors["web", "round_robin"].set_plan(Plan((2,)))
            responder.use(table)
            server.resume()
            loop = asyncio.get_running_loop()
            answers = [await asyncio.wait_for(loop.sock_recv(client, 512), PATIENCE) for _ in range(3)]
        assert {short(read(answer).answer)[0][2] for answer in answers} == {"gandalf.hobbit."}
        assert table.cursors["web", "round_robin"].totals() == [1, 0, 3]
        assert sum(table.queries().values()) == 4


async def test_plans_change_while_it_answers_and_every_selection_is_counted() -> None:
    async with answering() as server:
        cursor, loop = server._responder.table.cursors["web", "round_robin"], asyncio.get_running_loop()
        charged = [0, 0, 0]
        with udp_socket(server.endpoint) as client:
            for round_ in range(30):
                for query in with_ids(QUERY, range(100 * round_, 100 * round_ + 50)):
                    client.send(query)
                selections = cursor.selections()
                charged = [sum(counts) for counts in zip(charged, selections.counts, strict=True)]
                cursor.set_plan(Plan((round_ % 3, 0)), counted=selections)
                for _ in range(50):
                    await asyncio.wait_for(loop.sock_recv(client, 512), PATIENCE)
        charged = [sum(counts) for counts in zip(charged, cursor.selections().counts, strict=True)]
        assert charged == cursor.totals()
        assert sum(charged) == 1501


async def test_a_slow_path_that_is_not_read_is_found() -> None:
    async with answering() as server:
        loop = asyncio.get_running_loop()
        assert server._thread
        watch = ReadWatch(lambda: [server, server.slow_path], every=0.05)
        with udp_socket(server.endpoint) as client:
            loop.remove_reader(server._thread.fileno())
            client.send(UNCOMMON)
            await until(lambda: watch.fault == f"not reading the slow path of {server.endpoint} (UDP)")
            loop.add_reader(server._thread.fileno(), server._drain)
            await until(lambda: not watch.fault)
        watch.stop()


async def test_the_thread_leaves_signals_to_the_interpreter() -> None:
    async with answering():
        (status,) = statuses()
        blocked = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigBlk:"))
        for number in (1, 2, 15, 17):
            assert blocked >> (number - 1) & 1
    assert statuses() == []


def statuses() -> list[str]:
    """Return the status files of the threads that answer queries."""
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    return [(task / "status").read_text() for task in tasks if (task / "comm").read_text().strip() == THREAD_NAME]
