"""Tests of the read watch: a socket that its owner reads is never reported, however busy it is; others soon are."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest

from lbdns.sockets.read_watch import ReadWatch
from tests.server.clients import until

EVERY = 0.02  # s


class Reader:
    """A UDP socket with a sender; reads one datagram per wake-up."""

    def __init__(self) -> None:
        self.sock, self.sender = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        self.sock.bind(("127.0.0.1", 0))
        self.sock.setblocking(False)
        self.sender.connect(self.sock.getsockname())
        self.reads = 0

    def __str__(self) -> str:
        return "the socket"

    def fileno(self) -> int:
        return self.sock.fileno()

    def read(self) -> None:
        self.reads += 1
        self.sock.recv(10)

    def close(self) -> None:
        self.sock.close()
        self.sender.close()


@pytest.fixture
def reader() -> Iterator[Reader]:
    found = Reader()
    yield found
    found.close()


async def test_a_socket_that_is_not_read_is_reported_until_it_is_read(reader: Reader) -> None:
    watch = ReadWatch(lambda: [reader], EVERY)
    await asyncio.sleep(5 * EVERY)
    assert not watch.fault, "nothing to read"
    reader.sender.send(b"one")
    await until(lambda: watch.fault == "not reading the socket")
    reader.read()
    await until(lambda: not watch.fault)
    watch.stop()


async def test_a_socket_that_is_never_empty_but_read_is_not_reported(reader: Reader) -> None:
    watch = ReadWatch(lambda: [reader], EVERY)
    asyncio.get_running_loop().add_reader(reader, reader.read)
    faults = set()
    end = time.monotonic() + 20 * EVERY
    while time.monotonic() < end:
        for _ in range(10):
            reader.sender.send(b"many")
        await asyncio.sleep(0)
        faults.add(watch.fault)
    asyncio.get_running_loop().remove_reader(reader)
    watch.stop()
    assert faults == {""}


async def test_an_event_loop_that_stands_still_is_not_mistaken_for_an_unread_socket(reader: Reader) -> None:
    watch = ReadWatch(lambda: [reader], EVERY)
    asyncio.get_running_loop().add_reader(reader, reader.read)
    for _ in range(5):
        reader.sender.send(b"one")
        time.sleep(3 * EVERY)  # noqa: ASYNC251  # the loop stands still
        await asyncio.sleep(0)
        assert not watch.fault
    asyncio.get_running_loop().remove_reader(reader)
    watch.stop()


async def test_a_closed_socket_is_left_out(reader: Reader) -> None:
    watch = ReadWatch(lambda: [reader], EVERY)
    reader.sender.send(b"one")
    await until(lambda: watch.fault)
    reader.sock.close()
    await until(lambda: not watch.fault)
    watch.stop()
