"""Tests of following the collectors on a bus, in the test's event loop, with a real nats-server."""

from __future__ import annotations

from pathlib import Path

from lbdns.bus.bus_connection import BusConnection
from lbdns.events.event_log import EventLog
from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.snapshot import Snapshot
from lbdns.process.apply_configuration import apply
from lbdns.server.bus_follower import BusFollower
from lbdns_collector.snapshots.snapshot_messages import CHANGES
from lbdns_shared.keys import MasterKey
from tests.bus.bus_fixtures import access, until
from tests.collector.collector_fixtures import KEY, OTHER_KEY, make_farm
from tests.collector.snapshots.sharing import sharing
from tests.end_to_end.nats_bus import Bus, new_bus, serving_bus
from tests.needs import needs

pytestmark = needs(programs=("nats-server",))


class Follower:
    def __init__(self, folder: Path, key: MasterKey = KEY) -> None:
        self.events, self.snapshots = EventLog(), list[Snapshot]()
        self.farm = make_farm(folder)
        self.bus = BusConnection(self.events)
        self.follower = BusFollower(self.farm, (key,), self.bus, self.events)

    async def start(self, bus: Bus) -> None:
        await self.follower.start(self.snapshots.append)
        self.bus.use(access(bus))

    async def stop(self) -> None:
        await self.follower.stop()
        await self.bus.stop()

    def members(self) -> set[str]:
        return set(self.snapshots[-1].readings) if self.snapshots else set()


async def test_a_follower_starts_with_all_readings_and_follows(tmp_path: Path) -> None:
    bus = new_bus(tmp_path)
    with serving_bus(bus):
        async with sharing(tmp_path / "one", bus) as sharer:
            sharer.report("gandalf")
            found = Follower(tmp_path)
            await found.start(bus)
            await until(lambda: found.members() == {"gandalf.hobbit"}, "the whole snapshot arrives")
            await until(lambda: found.follower.connected, "the collector is alive")
            sharer.report("frodo")
            await until(lambda: len(found.members()) == 2, "a change arrives")
        await until(lambda: not found.follower.connected, "a stopped collector is noticed")
        assert any("no collector sends anything" in event.text for event in found.events.newest(5))
        async with sharing(tmp_path / "one", bus) as sharer:
            await until(lambda: found.follower.connected, "another collector is asked")
            assert len(found.members()) == 2
        await found.stop()


async def test_lost_messages_are_noticed_and_repaired(tmp_path: Path) -> None:
    bus = new_bus(tmp_path)
    with serving_bus(bus):
        async with sharing(tmp_path / "one", bus) as sharer:
            found = Follower(tmp_path)
            await found.start(bus)
            await until(lambda: found.follower.connected, "the collector is alive")
            [changes] = [each for each in found.bus._subscriptions if each.subject == CHANGES]
            changes.end()
            before = sharer.sender.counts["published"]
            sharer.report("gandalf")
            await until(lambda: sharer.sender.counts["published"] > before, "a change is published")
            assert sharer.bus.client
            await sharer.bus.client.flush()
            found.bus.subscribe(CHANGES, found.follower._receive)
            await until(lambda: found.members() == {"gandalf.hobbit"}, "the lost change arrives")
            assert found.follower._receiver.counts["lost"] >= 1
            await found.stop()


async def test_a_reload_changes_the_keys(tmp_path: Path) -> None:
    bus = new_bus(tmp_path)
    with serving_bus(bus):
        async with sharing(tmp_path / "one", bus):
            found = Follower(tmp_path, OTHER_KEY)
            await found.start(bus)
            await until(lambda: found.follower._receiver.counts["bad_tag"], "another key is refused")
            assert not found.follower.connected
            await apply([found.follower], CheckedConfiguration(found.farm, (KEY,)))
            await until(lambda: found.follower.connected, "the new key is used")
            await found.stop()


async def test_a_member_that_leaves_is_forgotten(tmp_path: Path) -> None:
    bus = new_bus(tmp_path)
    with serving_bus(bus):
        async with sharing(tmp_path / "one", bus) as sharer:
            sharer.report("gandalf")
            sharer.report("frodo")
            found = Follower(tmp_path)
            await found.start(bus)
            await until(lambda: len(found.members()) == 2, "the whole snapshot arrives")
            fewer = make_farm(tmp_path, members=("bilbo", "gandalf"))
            await apply([found.follower], CheckedConfiguration(fewer, (KEY,)))
            await until(lambda: found.members() == {"gandalf.hobbit"}, "the farm has fewer members")
            assert len(found.follower._receiver.readings) == 1
            await found.stop()
