"""Tests of messages with file descriptors over a Unix socket."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lbdns.server.workers.messages import AT_ONCE, MAX_PAYLOAD, MessageChannel, MessageReader, split_message
from tests.server.clients import until


class End:
    """One end of a connection, and the messages received at this end."""

    def __init__(self, sock: socket.socket) -> None:
        self.heard: list[bytes] = []
        self.descriptors: list[int] = []
        self.ended = self.drained = 0
        self.channel = MessageChannel(sock, self._hear, self._end, self._drain)

    def _hear(self, payload: bytes, descriptors: list[int]) -> None:
        self.heard.append(payload)
        self.descriptors += descriptors

    def _end(self) -> None:
        self.ended += 1

    def _drain(self) -> None:
        self.drained += 1

    def close(self) -> None:
        self.channel.close()
        for descriptor in self.descriptors:
            os.close(descriptor)


@asynccontextmanager
async def connection() -> AsyncIterator[tuple[End, End]]:
    one, two = map(End, socket.socketpair())
    try:
        yield one, two
    finally:
        one.close()
        two.close()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_messages_arrive_whole_and_in_order() -> None:
    async with connection() as (one, two):
        messages = [b"", b"a", b"b" * 3_000_000, b"c"]
        for message in messages:
            one.channel.send(message)
        two.channel.send(b"back")
        await until(lambda: len(two.heard) == 4 and one.heard)
        assert two.heard == messages
        assert one.heard == [b"back"]


async def test_descriptors_come_with_their_message() -> None:
    async with connection() as (one, two):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("127.0.0.1", 0))
            name = sock.getsockname()
            one.channel.send(b"without")
            one.channel.send(b"with two", [sock, sock])
        await until(lambda: len(two.heard) == 2)
        assert len(two.descriptors) == 2
        for descriptor in two.descriptors:
            assert not os.get_inheritable(descriptor)
            with socket.socket(fileno=os.dup(descriptor)) as same:
                assert same.getsockname() == name


async def test_more_descriptors_than_the_kernel_takes_at_once() -> None:
    async with connection() as (one, two):
        before = open_descriptors()
        with socket.socket() as sock:
            one.channel.send(b"a payload with room for their numbers", [sock] * (2 * AT_ONCE + 7))
        await until(lambda: two.heard)
        assert len(two.descriptors) == 2 * AT_ONCE + 7
        assert open_descriptors() == before + 2 * AT_ONCE + 7, "the sender keeps none"


async def test_sending_never_waits_and_says_when_all_is_sent() -> None:
    async with connection() as (one, two):
        two.channel._loop.remove_reader(two.channel._sock)  # it does not read
        one.channel.send(b"x" * 10_000_000)
        assert one.channel.is_behind
        drained = one.drained
        two.channel._loop.add_reader(two.channel._sock, two.channel._read)
        await asyncio.wait_for(one.channel.flush(10), 60)
        assert not one.channel.is_behind
        assert one.drained == drained + 1
        await until(lambda: two.heard)


async def test_flush_ends_when_nobody_reads() -> None:
    async with connection() as (one, two):
        two.channel._loop.remove_reader(two.channel._sock)
        one.channel.send(b"x" * 10_000_000)
        await asyncio.wait_for(one.channel.flush(0.05), 60)
        assert one.channel.is_behind


async def test_the_end_is_told_once_and_later_messages_go_nowhere() -> None:
    async with connection() as (one, two):
        two.channel.send(b"last words")
        two.channel.close()
        await until(lambda: one.ended)
        assert one.heard == [b"last words"]
        assert one.channel.closed
        one.channel.send(b"too late")
        await asyncio.wait_for(one.channel.flush(5), 60)
        assert one.ended == 1


async def test_descriptors_that_were_never_sent_are_closed() -> None:
    before = open_descriptors()
    one, two = map(End, socket.socketpair())
    two.channel._loop.remove_reader(two.channel._sock)
    with socket.socket() as sock:
        one.channel.send(b"x" * 10_000_000)
        one.channel.send(b"with a socket", [sock])
    one.close()
    two.close()
    assert open_descriptors() == before


async def test_nonsense_is_an_end() -> None:
    ours, theirs = socket.socketpair()
    one = End(ours)
    with theirs:
        theirs.send(struct.pack("!II", MAX_PAYLOAD + 1, 0))
        await until(lambda: one.ended)
        assert one.heard == []
    one.close()


def test_a_message_that_lacks_descriptors_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks 2 of its descriptors"):
        list(MessageReader().feed(struct.pack("!II", 1, 2) + b"x", []))


def test_pieces_are_put_together_wherever_they_are_cut() -> None:
    data = b"".join(piece for message in (b"one", b"", b"three") for piece, _ in split_message(message, ()))
    for size in (1, 2, 7, len(data)):
        reader = MessageReader()
        found = [p for at in range(0, len(data), size) for p, _ in reader.feed(data[at : at + size], [])]
        assert found == [b"one", b"", b"three"]


def test_descriptors_of_half_a_message_are_closed_with_the_reader() -> None:
    before = open_descriptors()
    reader = MessageReader()
    assert list(reader.feed(b"\0\0", [os.open("/dev/null", os.O_RDONLY)])) == []
    reader.close()
    assert open_descriptors() == before
