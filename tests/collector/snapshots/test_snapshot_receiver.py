"""Tests of the receiver of all collectors' snapshots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lbdns.bus.signed_message import MessageKeys
from lbdns.model.joined_members import JoinedMember
from lbdns.model.overrides import Override
from lbdns_collector.snapshots.collector_stream import DEAD_AFTER
from lbdns_collector.snapshots.snapshot_messages import (
    PURPOSE,
    SnapshotMessage,
    SnapshotRequest,
    read_request,
    reply_subject,
)
from lbdns_collector.snapshots.snapshot_receiver import FORGET, SnapshotReceiver
from lbdns_shared.keys import new_master_key
from tests.collector.snapshots.messages import NOW, WALL, message, part, rank, reading

KEYS = MessageKeys((new_master_key(),), PURPOSE)
GANDALF = "gandalf.hobbit"


class Stage:
    def __init__(self) -> None:
        self.receiver = SnapshotReceiver(KEYS)

    def take(self, sent: SnapshotMessage, now: float = NOW) -> bool:
        return self.receiver.take(KEYS.seal(sent.body(now)), now, WALL) is not None

    def requests(self, now: float = NOW) -> list[SnapshotRequest]:
        return [read_request(KEYS.open(data)) for data in self.receiver.requests(now, WALL)]

    def follow(self, boot: int = 1, name: str = "one", now: float = NOW, **more: Any) -> bool:
        """Ask, and receive a whole snapshot."""
        self.receiver.ask_everybody()
        [request] = self.requests(now)
        return self.take(replace(part(5, nonce=request.nonce, boot=boot, **more), collector=name), now)


def test_everybody_is_asked_until_somebody_replies() -> None:
    stage = Stage()
    [request] = stage.requests()
    assert request.boot is None
    assert request.reply_subject == stage.receiver.reply_subject == reply_subject(request.receiver)
    assert stage.requests() == []
    [again] = stage.requests(NOW + 10)
    assert again.nonce != request.nonce
    stage.take(part(5, nonce=request.nonce, members={GANDALF: (reading(66), rank(1))}), NOW + 10)
    assert stage.receiver.readings.of([GANDALF])[GANDALF].score == 66
    assert stage.receiver.alive(NOW + 10) == ["one"]
    assert stage.requests(NOW + 11) == []


def test_parts_with_a_nonce_of_nobody_are_replays() -> None:
    stage = Stage()
    [request] = stage.requests()
    assert not stage.take(part(5, nonce=bytes([7]) * 16))
    late = NOW + 40
    assert not stage.take(part(5, nonce=request.nonce), late)
    assert stage.receiver.counts == {"replay": 2}
    assert stage.receiver.alive(late) == []


def test_recorded_changes_do_not_count_after_a_restart() -> None:
    stage = Stage()
    assert not stage.take(message(9, gandalf=(50, 1)))
    assert not stage.receiver.readings.of([GANDALF])
    assert stage.receiver.alive(NOW) == []


def test_refusals_are_counted() -> None:
    stage = Stage()
    stage.receiver.take(b"garbage", NOW, WALL)
    stage.receiver.take(MessageKeys((new_master_key(),), PURPOSE).seal({}), NOW, WALL)
    stage.receiver.take(KEYS.seal({"a": 1}), NOW, WALL)
    stage.take(message(1, at=WALL - 31))
    assert stage.receiver.counts == {"malformed": 2, "bad_tag": 1, "clock": 1}


def test_a_collector_that_appears_is_asked() -> None:
    stage = Stage()
    stage.follow()
    stage.take(message(3, boot=2, name="two"))
    [request] = stage.requests()
    assert request.boot == 2
    stage.take(replace(part(3, nonce=request.nonce, boot=2), collector="two"))
    assert stage.receiver.alive(NOW) == ["one", "two"]


def test_overrides_of_several_collectors() -> None:
    stage = Stage()
    first = Override("weight", GANDALF, factor=0.5, since=1.0)
    later = Override("weight", GANDALF, factor=0.2, since=2.0)
    stage.follow(overrides=(first,))
    stage.follow(2, "two", overrides=(later,))
    assert stage.receiver.overrides() == [later]
    stage.take(replace(message(6, boot=2, name="two"), overrides=()))
    assert stage.receiver.overrides() == [first]
    stage.follow(3, "one", overrides=())
    assert stage.receiver.overrides() == [], "a restarted collector replaces what it said before"


def test_joined_members_of_those_who_are_alive() -> None:
    stage = Stage()
    joined = JoinedMember("web", "web-1", ("127.0.1.1",))
    stage.follow(joined=(joined,))
    stage.follow(2, "two", joined=())
    assert stage.receiver.joined(NOW).items == (joined,)
    assert stage.receiver.joined(NOW + DEAD_AFTER).items == (joined,), "nobody is alive"
    stage.take(message(6, boot=2, name="two"), NOW + DEAD_AFTER)
    assert stage.receiver.joined(NOW + DEAD_AFTER).items == ()


def test_silent_collectors_are_forgotten() -> None:
    stage = Stage()
    stage.follow()
    stage.requests(NOW + FORGET)
    assert not stage.take(message(6), NOW + FORGET), "its messages count only after a reply"
