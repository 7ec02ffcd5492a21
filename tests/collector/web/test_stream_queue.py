"""Tests of the queue of an event stream: order, size limit, and disconnection of slow clients."""

from __future__ import annotations

import asyncio

import pytest

from lbdns_collector.web.event_hub import MAX_JOINED, MAX_WAITING, MAX_WAITING_BYTES, StreamQueue


class Reader:
    def __init__(self, keep_alive: float = 20.0) -> None:
        self.aborted = 0
        self.stream = StreamQueue(self._abort, keep_alive)

    def _abort(self) -> None:
        self.aborted += 1


async def test_waiting_events_arrive_in_order_and_together() -> None:
    stream = Reader().stream
    stream.push(b"1")
    stream.push(b"2")
    assert await stream.next() == b"12"
    waiting = asyncio.create_task(stream.next())
    await asyncio.sleep(0)
    stream.push(b"3")
    assert await waiting == b"3"


async def test_long_events_are_not_copied() -> None:
    stream = Reader().stream
    long = [bytes(MAX_JOINED), bytes(MAX_JOINED)]
    whole = bytes(10)
    stream.push(b"1")
    for event in long:
        stream.push(event)
    stream.replace(whole)
    assert await stream.next() == b"1"
    for event in (*long, whole):
        assert await stream.next() is event
    assert not stream.is_behind


async def test_nothing_for_a_while_is_a_keep_alive() -> None:
    stream = Reader(keep_alive=0.001).stream
    assert await stream.next() == b""
    stream.push(b"1")
    assert await stream.next() == b"1"


async def test_the_end() -> None:
    stream = Reader().stream
    waiting = asyncio.create_task(stream.next())
    await asyncio.sleep(0)
    stream.end()
    assert await waiting is None
    assert await stream.next() is None
    stream.push(b"1")
    assert await stream.next() is None


@pytest.mark.parametrize("events", [[b"x"] * MAX_WAITING, [b"x", bytes(MAX_WAITING_BYTES - 1)]])
async def test_a_slow_client_is_cut_off(events: list[bytes]) -> None:
    reader = Reader()
    for event in events:
        reader.stream.push(event)
    assert (reader.aborted, reader.stream.ended) == (0, False)
    reader.stream.push(b"y")
    reader.stream.push(b"z")
    assert (reader.aborted, reader.stream.ended) == (1, True)


async def test_one_event_of_any_size_passes() -> None:
    reader = Reader()
    reader.stream.push(bytes(MAX_WAITING_BYTES + 1))
    assert reader.aborted == 0
    assert len(await reader.stream.next() or b"") == MAX_WAITING_BYTES + 1
