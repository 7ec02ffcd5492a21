"""Tests of the transfer queue: turns, the limit, waiting senders, and senders that leave."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lbdns.server.transport import transfer_queue
from lbdns.server.transport.transfer_queue import TransferQueue
from tests.server.clients import until


class Recorder:
    """Sends a given number of messages."""

    def __init__(self, name: str, count: int, sent: list[str]) -> None:
        self.name, self.left, self.sent = name, count, sent

    def send_one(self) -> bool:
        if self.left:
            self.left -= 1
            self.sent.append(self.name)
        return bool(self.left)


async def test_they_take_turns_one_message_each_time_the_loop_comes_round() -> None:
    sent: list[str] = []
    queue = TransferQueue()
    for name in "abc":
        queue.begin(Recorder(name, 3, sent))
    lengths = []
    while len(sent) < 9:
        lengths.append(len(sent))
        await asyncio.sleep(0)
    assert "".join(sent) == "abcabcabc"
    assert lengths == sorted(set(lengths)), "one a turn"


async def test_those_over_the_limit_wait_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_queue, "TRANSFERS_AT_ONCE", 2)
    sent: list[str] = []
    queue = TransferQueue()
    senders = [Recorder(name, 10**9, sent) for name in "abcd"]
    for sender in senders:
        queue.begin(sender)
    await until(lambda: len(sent) >= 4)
    assert set(sent) == {"a", "b"}
    queue.end(senders[2])  # goes away while it waits
    queue.end(senders[0])
    sent.clear()
    await until(lambda: len(sent) >= 4)
    assert set(sent) == {"b", "d"}


async def test_who_is_to_read_first_is_left_alone_until_it_has() -> None:
    sent: list[str] = []
    queue = TransferQueue()
    paused = Recorder("a", 1, sent)
    queue.begin(paused)
    await until(lambda: sent)
    paused.left = 1
    for _ in range(5):
        await asyncio.sleep(0)
    assert sent == ["a"]
    queue.resume(paused)
    queue.resume(paused)
    await until(lambda: len(sent) == 2)
    queue.end(paused)
    queue.resume(paused)
    for _ in range(5):
        await asyncio.sleep(0)
    assert sent == ["a", "a"]


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_transfer_that_ends_lets_the_next_one_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_queue, "TRANSFERS_AT_ONCE", 1)
    sent: list[str] = []
    queue = TransferQueue()

    class Ending(Recorder):
        """Sends its messages, and then ends its transfer, as a connection does."""

        def send_one(self) -> bool:
            if super().send_one():
                return True
            queue.end(self)
            return False

    for name in "abc":
        queue.begin(Ending(name, 3, sent))
    queue.resume(Recorder("x", 1, sent))  # has not begun, so it sends nothing
    await until(lambda: len(sent) == 9)
    await turns()
    assert "".join(sent) == "aaabbbccc"


async def test_a_sender_that_leaves_on_its_turn_sends_no_more() -> None:
    sent: list[str] = []
    queue = TransferQueue()
    leaving, staying = Recorder("a", 9, sent), Recorder("b", 9, sent)
    queue.begin(leaving)
    queue.begin(staying)
    queue.end(leaving)
    await until(lambda: sent.count("b") == 9)
    queue.end(leaving)  # once more: nothing happens
    queue.end(staying)
    await turns()
    assert sent == ["b"] * 9


async def test_an_empty_queue_does_not_keep_the_event_loop_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    loop = asyncio.get_running_loop()
    call_soon = loop.call_soon

    def counted(*arguments: Any, **options: Any) -> asyncio.Handle:
        nonlocal calls
        calls += getattr(arguments[0], "__name__", "") == "_turn"
        return call_soon(*arguments, **options)

    monkeypatch.setattr(loop, "call_soon", counted)
    sent: list[str] = []
    queue = TransferQueue()
    await turns()
    assert calls == 0
    queue.begin(Recorder("a", 3, sent))
    await until(lambda: len(sent) == 3)
    await turns()
    assert calls == 3
