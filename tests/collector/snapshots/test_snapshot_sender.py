"""Tests of what a collector publishes, and of the requests that it answers, with a real nats-server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbdns.bus.signed_message import MessageKeys
from lbdns_collector.snapshots.snapshot_messages import (
    CHANGES,
    PURPOSE,
    REQUESTS,
    SnapshotMessage,
    SnapshotRequest,
    read_message,
    reply_subject,
)
from lbdns_shared.keys import new_master_key
from tests.bus.bus_fixtures import connected, until
from tests.collector.collector_fixtures import KEY
from tests.collector.snapshots.sharing import sharing
from tests.end_to_end.nats_bus import new_bus, serving_bus
from tests.needs import needs

if TYPE_CHECKING:
    from nats.aio.msg import Msg

pytestmark = needs(programs=("nats-server",))

KEYS = MessageKeys((KEY,), PURPOSE)


class Listener:
    """Keeps the messages of a subscription."""

    def __init__(self) -> None:
        self.messages: list[SnapshotMessage] = []

    async def receive(self, message: Msg) -> None:
        self.messages.append(read_message(KEYS.open(message.data), time.monotonic()))

    def members(self) -> dict[str, int]:
        """Return the sequence number of each member's newest report."""
        return {name: rank.seq for message in self.messages for name, (_, rank) in message.members.items()}


async def test_changes_are_published_and_numbered(tmp_path: Path) -> None:
    bus, listener = new_bus(tmp_path), Listener()
    with serving_bus(bus):
        async with connected(bus) as other:
            other.subscribe(CHANGES, listener.receive)
            assert other.client
            await other.client.flush()
            async with sharing(tmp_path / "one", bus) as sharer:
                await until(lambda: len(listener.messages) >= 2, "an idle collector shows that it is alive")
                assert sharer.report("gandalf", 3) == sharer.report("frodo", 4) == "accepted"
                await until(lambda: len(listener.members()) == 2, "the changes arrive")
                assert listener.members() == {"gandalf.hobbit": 3, "frodo.hobbit": 4}
                numbers = [message.seq for message in listener.messages]
                assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


async def test_requests_are_answered_with_everything(tmp_path: Path) -> None:
    bus, listener = new_bus(tmp_path), Listener()
    with serving_bus(bus):
        async with connected(bus) as other, sharing(tmp_path / "one", bus) as sharer:
            sharer.report("gandalf", 3)
            await until(lambda: sharer.bus.state.connected, "the collector is connected")
            assert sharer.bus.client
            await sharer.bus.client.flush()
            other.subscribe(reply_subject("abc"), listener.receive)
            request = SnapshotRequest("abc", bytes(16), time.time())
            for _ in range(2):
                await other.publish(REQUESTS, KEYS.seal(request.body()))
            await until(lambda: listener.messages and listener.messages[-1].is_last, "the last part arrives")
            assert [message.index for message in listener.messages] == list(range(len(listener.messages)))
            assert {message.nonce for message in listener.messages} == {bytes(16)}
            assert listener.members() == {"gandalf.hobbit": 3}
            assert (listener.messages[0].overrides, listener.messages[0].joined) == ((), ())
            assert "gandalf" in {name for message in listener.messages for name in message.records}
            await until(lambda: sharer.sender.counts["replay"] == 1, "the repeated request is refused")
            # An answer is counted after its last part has been sent
            await until(lambda: sharer.sender.counts["answered"] == 1, "one request is answered")


@pytest.mark.parametrize(
    ("data", "result"),
    [
        (b"garbage", "malformed"),
        (KEYS.seal({}), "malformed"),
        (MessageKeys((new_master_key(),), PURPOSE).seal({}), "bad_tag"),
        (KEYS.seal(SnapshotRequest("abc", bytes(16), 0.0).body()), "clock"),
    ],
    ids=["garbage", "empty", "other-key", "too-old"],
)
async def test_refused_requests(tmp_path: Path, data: bytes, result: str) -> None:
    bus = new_bus(tmp_path)
    with serving_bus(bus):
        async with connected(bus) as other, sharing(tmp_path / "one", bus) as sharer:
            await until(lambda: sharer.bus.state.connected, "the collector is connected")
            assert sharer.bus.client
            await sharer.bus.client.flush()
            await other.publish(REQUESTS, data)
            await until(lambda: sharer.sender.counts[result] == 1, "the refusal is counted")
            assert sharer.sender.counts["answered"] == 0
