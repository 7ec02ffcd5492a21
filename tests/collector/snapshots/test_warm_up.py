"""Tests of the start of a collector with another collector's readings and sequence numbers."""

from __future__ import annotations

from pathlib import Path

from lbdns_collector.snapshots.warm_up import adopt, warm_up
from tests.bus.bus_fixtures import access, until
from tests.collector.collector_fixtures import KEY
from tests.collector.report_tables import make
from tests.collector.snapshots.messages import part, rank, reading
from tests.collector.snapshots.sharing import Sharer, sharing
from tests.end_to_end.nats_bus import new_bus, serving_bus
from tests.needs import needs


@needs(programs=("nats-server",))
async def test_a_new_collector_adopts_readings_and_sequences(tmp_path: Path) -> None:
    bus = new_bus(tmp_path)
    with serving_bus(bus):
        async with sharing(tmp_path / "old", bus) as old:
            old.report("gandalf", 5)
            await until(lambda: old.bus.state.connected, "the old collector is connected")
            assert old.bus.client
            await old.bus.client.flush()
            new = Sharer(tmp_path / "new")
            new.bus.use(access(bus))
            await warm_up(new.bus, (KEY,), new.collector, new.events, 30.0)
            found = new.collector.table.reading("gandalf.hobbit")
            assert found
            assert found.metrics == getattr(old.collector.table.reading("gandalf.hobbit"), "metrics", None)
            assert [event for event in new.events.newest(5) if "1 reading adopted" in event.text]
            await new.bus.stop()
            assert new.collector.table.newest_report("gandalf") is not None
            new.members.planner.stop()


@needs(programs=("nats-server",))
async def test_without_another_collector(tmp_path: Path) -> None:
    """The NATS server says that nobody subscribes to requests, so the collector does not wait for a reply."""
    bus = new_bus(tmp_path)
    with serving_bus(bus):
        new = Sharer(tmp_path / "new")
        new.bus.use(access(bus))
        task = await warm_up(new.bus, (KEY,), new.collector, new.events, 600.0)
        assert task
        assert task.done()
        assert not new.collector.table.members()
        await new.bus.stop()
        new.members.planner.stop()


async def test_without_a_bus(tmp_path: Path) -> None:
    new = Sharer(tmp_path / "new")
    assert await warm_up(new.bus, (KEY,), new.collector, new.events, 600.0) is None
    new.members.planner.stop()


def test_only_known_members_without_a_reading_are_adopted() -> None:
    table = make(KEY)
    members = {"gandalf.hobbit": (reading(7), rank(1)), "stranger.hobbit": (reading(), rank(1))}
    found = part(1, members=members, records={"gandalf": "invalid", 7: None})
    assert adopt(table, found, {"gandalf.hobbit"}) == 1
    assert list(table.members()) == ["gandalf.hobbit"]
    adopted = table.reading("gandalf.hobbit")
    assert adopted
    assert adopted.score == table.score.of(adopted.metrics), "this collector's score counts"
    assert adopt(table, found, {"gandalf.hobbit"}) == 0
