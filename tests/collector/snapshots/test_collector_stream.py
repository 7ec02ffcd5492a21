"""Tests of one collector's messages: order, replays, and lost messages."""

from __future__ import annotations

from collections import Counter

from lbdns_collector.snapshots.collector_stream import ASK_AGAIN, DEAD_AFTER, MAX_WAITING, CollectorStream
from tests.collector.snapshots.messages import NOW, message, part


class Stage:
    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.stream = CollectorStream("one", 1, self.counts, NOW)

    def changes(self, *seqs: int) -> list[int]:
        return [each.seq for seq in seqs for each in self.stream.take_changes(message(seq), NOW)]

    def part(self, seq: int, index: int = 0, *, is_last: bool = True, nonce: bytes = bytes(16)) -> list[int]:
        return [each.seq for each in self.stream.take_part(part(seq, index, is_last=is_last, nonce=nonce), NOW)]

    def wants_whole(self, after: float = ASK_AGAIN) -> bool:
        return self.stream.wants_whole(NOW + after)


def test_changes_wait_for_the_first_part() -> None:
    stage = Stage()
    assert stage.changes(4, 5, 6) == []
    assert not stage.stream.is_alive(NOW), "it may be a replay"
    assert stage.wants_whole(0)
    stage.stream.note_asked(NOW)
    assert not stage.wants_whole(0)
    assert stage.part(5, is_last=False) == [5, 6]
    assert stage.wants_whole(), "the series is not complete"
    assert stage.part(6, 1) == [6]
    assert stage.stream.is_whole
    assert not stage.wants_whole()
    assert stage.changes(7) == [7]
    assert (stage.counts["lost"], stage.counts["replay"]) == (0, 0)


def test_replays_are_refused() -> None:
    stage = Stage()
    stage.part(5)
    assert stage.changes(6, 6, 5) == [6]
    assert stage.part(5) == []
    assert stage.counts["replay"] == 3


def test_lost_changes_are_asked_for() -> None:
    stage = Stage()
    stage.part(5)
    assert stage.changes(8) == [8]
    assert stage.counts["lost"] == 2
    assert stage.wants_whole()
    stage.part(8, nonce=bytes([1]) * 16)
    assert not stage.wants_whole()


def test_changes_lost_between_two_parts_are_asked_for() -> None:
    stage = Stage()
    stage.part(5, is_last=False)
    stage.changes(7)
    stage.part(7, 1)
    assert stage.stream.is_whole
    assert stage.wants_whole()


def test_a_lost_part_is_asked_for() -> None:
    stage = Stage()
    stage.part(5, is_last=False)
    assert stage.part(5, 2) == []
    assert stage.counts["lost"] == 1
    assert not stage.stream.is_whole
    assert stage.wants_whole()


def test_few_messages_wait() -> None:
    stage = Stage()
    stage.changes(*range(1, MAX_WAITING + 10))
    assert len(stage.part(0)) == MAX_WAITING + 1


def test_a_silent_collector() -> None:
    stage = Stage()
    stage.part(5)
    assert stage.stream.is_alive(NOW)
    assert not stage.stream.is_alive(NOW + DEAD_AFTER)
