"""Tests of accepting connections without a free descriptor: one after another, with pauses, and two log lines."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import pytest

from lbdns.sockets import acceptor as acceptor_module
from lbdns.sockets.acceptor import Acceptor
from tests.server.clients import until
from tests.shortage import no_descriptors_left

pytestmark = pytest.mark.parametrize("all_at_once", [False, True])


class Server:
    """Accepts connections and keeps them."""

    def __init__(self, make_room: bool = False) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.setblocking(False)
        self.acceptor = Acceptor(self.listening, "the socket", self.make_room if make_room else lambda: False)
        self.kept: list[socket.socket] = []
        self.accepted = 0

    def make_room(self) -> bool:
        if self.kept:
            self.kept.pop(0).close()
            return True
        return False

    def take(self, connection: socket.socket) -> None:
        self.kept.append(connection)
        self.accepted += 1

    async def take_one_by_one(self) -> None:
        while True:
            self.take(await self.acceptor.accept())


@asynccontextmanager
async def server(all_at_once: bool, make_room: bool = False) -> AsyncIterator[Server]:
    found = Server(make_room)
    if all_at_once:
        found.acceptor.start(found.take)
    running = asyncio.create_task(asyncio.sleep(0) if all_at_once else found.take_one_by_one())
    try:
        yield found
    finally:
        running.cancel()
        found.acceptor.close()
        found.listening.close()
        for sock in found.kept:
            sock.close()


def clients(stack: ExitStack, count: int) -> list[socket.socket]:
    return [stack.enter_context(socket.socket()) for _ in range(count)]


def connect(target: Server, *socks: socket.socket) -> None:
    for sock in socks:
        sock.connect(target.listening.getsockname())


async def test_one_after_another_while_no_descriptor_is_left(
    all_at_once: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with server(all_at_once) as serving:
        with ExitStack() as stack:
            waiting = clients(stack, 5)
            with no_descriptors_left():
                connect(serving, *waiting)
                for count in range(1, 6):
                    await until(lambda count=count: serving.accepted == count)  # type: ignore[misc]
                    await asyncio.sleep(0.05)
                    assert serving.accepted == count, "the reserve is in use"
                    serving.kept.pop().close()
    assert [record.message for record in caplog.records] == [
        "the socket: accepting connections failed: Too many open files; clients are served one at a time"
    ]


async def test_it_rests_while_it_cannot_accept(all_at_once: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with server(all_at_once) as serving:
        with ExitStack() as stack:
            waiting = clients(stack, 3)
            with no_descriptors_left():
                connect(serving, *waiting)
                await until(lambda: serving.accepted == 1)
                began = time.process_time()
                await asyncio.sleep(1.0)
                assert time.process_time() - began < 0.5, "a loop without pauses takes all of the second"
                assert serving.accepted == 1
            await until(lambda: serving.accepted == 3)
    assert len(caplog.records) == 1


async def test_connections_that_can_be_spared_make_room(all_at_once: bool) -> None:
    async with server(all_at_once, make_room=True) as serving:
        with ExitStack() as stack:
            waiting = clients(stack, 10)
            with no_descriptors_left() as held:
                for _ in range(2):
                    os.close(held.pop())
                connect(serving, *waiting)
                await until(lambda: serving.accepted == 10)


async def test_the_end_of_a_shortage_is_logged_once_and_not_before(
    all_at_once: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "lbdns")
    monkeypatch.setattr(acceptor_module, "QUIET", 0.2)
    async with server(all_at_once) as serving:
        with ExitStack() as stack:
            waiting = clients(stack, 2)
            with no_descriptors_left():
                connect(serving, *waiting)
                await until(lambda: serving.accepted == 1)
                serving.kept.pop().close()
                await until(lambda: serving.accepted == 2)
                serving.kept.pop().close()
                await asyncio.sleep(1.0)
                assert len(caplog.records) == 1, "nobody connects, but a connection would find no descriptor"
            await until(lambda: len(caplog.records) == 2)
    assert caplog.records[1].message == "the socket: connections are accepted again"
