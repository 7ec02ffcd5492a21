"""Tests of the sockets that the service manager keeps: which messages are sent, and with which descriptors."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns.sockets.dns_sockets import open_pair
from lbdns.sockets.socket_store import SocketStore, forget, stored_name
from lbdns_shared.endpoint import Endpoint
from tests.server.fake_service_manager import FakeServiceManager

ANY = Endpoint("127.0.0.1", 0)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[FakeServiceManager]:
    found = FakeServiceManager(tmp_path)
    yield found
    found.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    udp, tcp = open_pair(ANY)
    yield udp, tcp
    udp.close()
    tcp.close()


async def test_the_manager_gets_each_socket_once(manager: FakeServiceManager, pair: list[socket.socket]) -> None:
    store = SocketStore(manager.environment)
    await store.update(pair)
    assert {manager.receive() for _ in pair} == {f"FDSTORE=1\nFDNAME={stored_name(each)}\nFDPOLL=0" for each in pair}
    assert {sock.getsockname() for sock in manager.stored.values()} == {sock.getsockname() for sock in pair}
    with pair[0].dup() as again:
        await store.update([again, pair[1]])
        await store.update([again])
    assert manager.receive() == f"FDSTOREREMOVE=1\nFDNAME={stored_name(pair[1])}", "nothing was stored twice"
    assert list(manager.stored) == [stored_name(pair[0])]


async def test_inherited_sockets_are_not_stored_again(manager: FakeServiceManager, pair: list[socket.socket]) -> None:
    await SocketStore(manager.environment).update(pair)
    for _ in pair:
        manager.receive()
    store = SocketStore(manager.environment)
    store.holds(sock for sock in manager.stored.values())
    await store.update(pair[:1])
    assert manager.receive().startswith("FDSTOREREMOVE=1")
    forget(pair[0], manager.environment)
    assert manager.receive() == f"FDSTOREREMOVE=1\nFDNAME={stored_name(pair[0])}"
    assert manager.stored == {}


@pytest.mark.parametrize("change", [{"FDSTORE": ""}, {"FDSTORE": "0"}, {"FDSTORE": "many"}, {"NOTIFY_SOCKET": ""}])
async def test_a_manager_that_stores_nothing_gets_nothing(
    manager: FakeServiceManager, pair: list[socket.socket], change: dict[str, str]
) -> None:
    store = SocketStore({**manager.environment, **change})
    assert not store.is_on
    await store.update(pair)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"STATUS=last", manager.environment["NOTIFY_SOCKET"])
    assert manager.receive() == "STATUS=last"


async def test_too_little_room_is_a_warning(
    tmp_path: Path, pair: list[socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    manager = FakeServiceManager(tmp_path, room=1)
    await SocketStore(manager.environment).update(pair)
    assert "stores 1 of 2 sockets" in caplog.text
    assert "FileDescriptorStoreMax=2" in caplog.text
    manager.close()


async def test_a_manager_that_has_gone_is_a_warning(
    manager: FakeServiceManager, pair: list[socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    os.unlink(manager.environment["NOTIFY_SOCKET"])
    await SocketStore(manager.environment).update(pair)
    assert "does not store the sockets: No such file" in caplog.text


async def test_a_full_queue_is_waited_for(
    manager: FakeServiceManager, pair: list[socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    filled = 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        try:
            while True:
                other.sendto(b"STATUS=busy", manager.environment["NOTIFY_SOCKET"])
                filled += 1
        except BlockingIOError:
            pass
        update = asyncio.create_task(SocketStore(manager.environment).update(pair))
        await asyncio.sleep(0)
        assert not update.done()
        for _ in range(filled):
            assert manager.receive() == "STATUS=busy"
        await update
    for _ in pair:
        manager.receive()
    assert len(manager.stored) == 2
    assert not caplog.records


async def test_duplicates_are_closed(manager: FakeServiceManager, pair: list[socket.socket]) -> None:
    duplicates = [sock.dup() for sock in pair]
    await SocketStore(manager.environment).update_and_close(duplicates)
    for _ in pair:
        manager.receive()
    assert len(manager.stored) == 2
    assert [sock.fileno() for sock in duplicates] == [-1, -1]


async def test_too_few_descriptors_are_a_warning(
    manager: FakeServiceManager, pair: list[socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    first = pair[0].dup()

    def duplicates() -> Iterator[socket.socket]:
        yield first
        raise OSError(errno.EMFILE, "Too many open files")

    await SocketStore(manager.environment, "reports").update_and_close(duplicates())
    assert "they cannot be duplicated: Too many open files; a restart may lose reports" in caplog.text
    assert first.fileno() == -1
