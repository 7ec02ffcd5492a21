"""Tests of overrides that servers share over a bus, with a real nats-server, in the test's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from lbdns.bus.bus_connection import BusConnection
from lbdns.events.event_log import EventLog
from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.farm import Farm
from lbdns.model.overrides import Override
from lbdns.process.apply_configuration import apply
from lbdns.server.control.override_sharing import BUCKET, OverrideSharing
from lbdns_shared.errors import LbdnsError
from lbdns_tools.nats_servers import SERVER
from tests.answering.farms import hobbit
from tests.bus.bus_fixtures import access, connected, until
from tests.collector.collector_fixtures import KEY, OTHER_KEY
from tests.end_to_end.nats_bus import Bus, new_bus, serving_bus
from tests.needs import needs
from tests.server.control.desk import Desk, desk, kept_in

pytestmark = needs(programs=("nats-server",))
BUCKET_KEY = "drain.frodo=2Ehobbit.="


def shared(farm: Farm, is_on: bool = True) -> Farm:
    """Return the farm with shared overrides."""
    config = farm.config
    return replace(farm, config=replace(config, bus=replace(config.bus, share_overrides=is_on)))


@contextlib.asynccontextmanager
async def server(folder: Path, bus: Bus, is_on: bool = True) -> AsyncIterator[Desk]:
    """Yield a server with its state in ``folder``, named as the folder."""
    connection = BusConnection(EventLog())
    async with desk(folder, shared(hobbit(), is_on), connection) as found:
        found.sharing.server = folder.name
        connection.use(access(bus, SERVER))
        try:
            yield found
        finally:
            await found.manager.stop()
            await connection.stop()


async def ready(*servers: Desk) -> None:
    await until(lambda: not any(each.sharing.problem for each in servers), "all servers share their overrides")


def texts(found: Desk) -> list[str]:
    return [override.text() for override in found.manager.overrides.items]


def records(found: Desk, text: str) -> list[str]:
    return [each for each in found.recorded() if text in each]


def drained(found: Desk) -> bool:
    return any(
        override.kind == "drain" and override.member == "frodo.hobbit" for override in found.manager.overrides.items
    )


@pytest.fixture
def bus(tmp_path: Path) -> Bus:
    return new_bus(tmp_path, jetstream=True)


@pytest.fixture
def running_bus(bus: Bus) -> Iterator[Bus]:
    with serving_bus(bus):
        yield bus


async def test_an_order_counts_everywhere_and_can_be_ended_anywhere(tmp_path: Path, running_bus: Bus) -> None:
    async with server(tmp_path / "ns1", running_bus) as one, server(tmp_path / "ns2", running_bus) as two:
        await ready(one, two)
        answer = await one.say("drain", reason="kernel")
        assert answer["notes"] == []
        assert not one.manager.orders.pending
        await until(lambda: "frodo" not in two.order(), "the drain arrives")
        assert texts(one) == texts(two) == ["drained by root at ns1: kernel"]
        assert two.recorded()[-1] == "pool web: frodo drained by root at ns1: kernel"
        assert (await two.say("undrain"))["notes"] == []
        await until(lambda: not drained(one), "its end arrives")
        assert (
            one.recorded()[-1] == "pool web: frodo no longer drained: root ended the drain at ns2 (its reason: kernel)"
        )
        async with server(tmp_path / "ns3", running_bus) as three:
            await ready(three)
            assert texts(three) == []
            await one.say("weight", factor=0.5, for_s=1000.0)
            await until(lambda: texts(three) == ["weight 0.5 by root at ns1"], "a later order arrives")
        async with server(tmp_path / "ns4", running_bus) as new:
            await until(lambda: texts(new) == ["weight 0.5 by root at ns1"], "a new server reads it")


async def test_concurrent_orders_end_in_one_that_all_servers_have(tmp_path: Path, running_bus: Bus) -> None:
    async with contextlib.AsyncExitStack() as stack:
        names = ("ns1", "ns2", "ns3")
        servers = [await stack.enter_async_context(server(tmp_path / name, running_bus)) for name in names]
        await ready(*servers)
        for factor in (2.0, 3.0, 4.0):
            orders = (each.say("weight", factor=factor + at / 10) for at, each in enumerate(servers))
            await asyncio.gather(*orders)
        await until(lambda: not any(each.manager.orders.pending for each in servers), "all orders are decided")
        place = ("weight", "frodo.hobbit", "")
        await until(
            lambda: len({each.manager.orders.orders[place] for each in servers}) == 1, "all servers have the same order"
        )
        assert len({tuple(texts(each)) for each in servers}) == 1


@pytest.mark.parametrize("keeps_store", [True, False])
async def test_orders_given_while_cut_off(tmp_path: Path, bus: Bus, keeps_store: bool) -> None:
    with contextlib.ExitStack() as first:
        nats = first.enter_context(serving_bus(bus))
        async with server(tmp_path / "ns1", bus) as one, server(tmp_path / "ns2", bus) as two:
            await ready(one, two)
            await one.say("force", "gandalf", to="up")
            await until(lambda: texts(two), "the order arrives")
            nats.stop(signal.SIGKILL)
            await until(lambda: one.sharing.problem and two.sharing.problem, "the loss is noticed")
            [note] = (await one.say("drain"))["notes"]
            assert note.startswith("cut off from the other servers since ")
            assert note.endswith("counts everywhere, unless a newer one exists")
            assert drained(one)
            assert not drained(two)
            [note] = (await two.say("overrides"))["notes"]
            assert note.endswith("overrides of other servers may be missing")
            assert records(two, "cut off from the other servers: ")
            if not keeps_store:
                shutil.rmtree(bus.store)
            with serving_bus(bus):
                await until(lambda: drained(two), "the drain arrives")
                await ready(one, two)
                async with server(tmp_path / "ns3", bus) as new:
                    expected = ["forced up by root at ns1", "drained by root at ns1"]
                    await until(lambda: sorted(texts(new)) == sorted(expected), "a new server reads all orders")


async def test_of_two_orders_given_while_cut_off_one_counts(tmp_path: Path, bus: Bus) -> None:
    with contextlib.ExitStack() as first:
        nats = first.enter_context(serving_bus(bus))
        async with server(tmp_path / "ns1", bus) as one, server(tmp_path / "ns2", bus) as two:
            await ready(one, two)
            nats.stop(signal.SIGKILL)
            await until(lambda: one.sharing.problem and two.sharing.problem, "the loss is noticed")
            await one.say("weight", factor=2.0)
            await two.say("weight", factor=3.0)
            with serving_bus(bus):
                await until(lambda: not (one.manager.orders.pending or two.manager.orders.pending), "both are decided")
                await until(lambda: texts(one) == texts(two), "both have the same order")
                lost = records(one, "does not count") + records(two, "does not count")
                assert len(lost) == 1, lost
                assert "weight that root ordered at ns" in lost[0]


async def test_a_restarted_server_keeps_its_orders_while_cut_off(tmp_path: Path, bus: Bus) -> None:
    with serving_bus(bus):
        async with server(tmp_path / "ns1", bus) as one:
            await ready(one)
            await one.say("drain", reason="known")
            revision = json.loads(one.file.read_text())["shared_orders"][0]["revision"]
            assert revision > 0
    async with server(tmp_path / "ns1", bus) as again:
        assert texts(again) == ["drained by root at ns1: known"]
        assert (await again.say("undrain"))["notes"]
    assert json.loads((tmp_path / "ns1" / "overrides.json").read_text())["overrides"] == []
    with serving_bus(bus):
        async with server(tmp_path / "ns2", bus) as two:
            await until(lambda: drained(two), "the stored drain is read")
            async with server(tmp_path / "ns1", bus):
                await until(lambda: not drained(two), "the order from before the restart is sent")


async def test_forged_and_replayed_records_do_not_count_and_are_repaired(
    tmp_path: Path, running_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lbdns.server.control.override_sharing.REPAIR", (0.1, 0.2))
    async with server(tmp_path / "ns1", running_bus) as one, connected(running_bus) as attacker:
        await ready(one)
        assert attacker.client
        store = await attacker.client.jetstream().key_value(BUCKET)
        await one.say("drain")
        recorded = (await store.get(BUCKET_KEY)).value
        await one.say("undrain")
        newest = (await store.get(BUCKET_KEY)).value
        assert recorded
        assert newest

        def repaired(reason: str, before: int) -> bool:
            return one.sharing.counts[reason] >= 1 and one.sharing.counts["stored"] > before

        forged = recorded[:-1] + bytes([recorded[-1] ^ 1])
        for value, reason in ((recorded, "replay"), (forged, "bad_tag"), (b"garbage", "malformed"), (b"", "deleted")):
            await (store.put(BUCKET_KEY, value) if value else store.delete(BUCKET_KEY))
            await until(partial(repaired, reason, one.sharing.counts["stored"]), f"{reason}: the order is stored again")
            assert not drained(one)
            assert (await store.get(BUCKET_KEY)).value == newest
        await store.put("drain.bilbo=2Ehobbit.=", recorded)  # under the key of another member
        await until(lambda: one.sharing.counts["malformed"] >= 2, "a record under another key does not count")
        assert texts(one) == []


async def test_another_key_is_not_accepted_until_a_reload(tmp_path: Path, running_bus: Bus) -> None:
    async with server(tmp_path / "ns1", running_bus) as one, server(tmp_path / "ns2", running_bus) as two:
        await ready(one, two)
        await apply([two.manager], CheckedConfiguration(two.farm, (OTHER_KEY,)))
        await one.say("drain")
        await until(lambda: two.sharing.counts["bad_tag"], "the record is refused")
        assert not drained(two)
        await apply([two.manager], CheckedConfiguration(two.farm, (KEY,)))
        await until(lambda: drained(two), "the record is read again")


async def test_a_reload_turns_sharing_on_and_off(tmp_path: Path, running_bus: Bus) -> None:
    async with server(tmp_path / "ns1", running_bus, is_on=False) as one, server(tmp_path / "ns2", running_bus) as two:
        await ready(two)
        await one.say("drain", reason="before")
        assert texts(one) == ["drained by root: before"]
        assert one.manager.sharing is None
        on = shared(kept_in(tmp_path / "ns1", hobbit()))
        await apply([one.manager], CheckedConfiguration(on, (KEY,)))
        await until(lambda: drained(two), "the override becomes an order")
        assert texts(two) == ["drained by root at ns1: before"]
        await apply([one.manager], CheckedConfiguration(shared(on, is_on=False), (KEY,)))
        await two.say("undrain")
        assert texts(one) == ["drained by root: before"]
        await one.say("undrain")
        assert not drained(one)
        await apply([one.manager], CheckedConfiguration(on, (KEY,)))
        await ready(one)
        await two.say("drain", "bilbo")
        await until(lambda: texts(one) == ["drained by root at ns2"], "orders arrive again")


async def test_an_override_expires_everywhere(tmp_path: Path, running_bus: Bus) -> None:
    async with server(tmp_path / "ns1", running_bus) as one, server(tmp_path / "ns2", running_bus) as two:
        await ready(one, two)
        await one.say("drain", for_s=60.0)
        await until(lambda: drained(two), "the drain arrives")
        two.ahead = 61.0
        two.manager._check()
        assert not drained(two)
        assert records(two, "the override expired after 1m")
        with pytest.raises(LbdnsError, match="not drained"):
            await two.say("undrain")


async def test_followed_copies_of_shared_overrides_are_ignored(tmp_path: Path, running_bus: Bus) -> None:
    copy = Override("drain", "frodo.hobbit", by="root", origin="bus", server="ns1")
    async with server(tmp_path / "ns2", running_bus) as two:
        await ready(two)
        two.manager.follow([copy, replace(copy, member="bilbo.hobbit", server="")])
        await until(lambda: two.order() == ["frodo", "gandalf"], "only the other override counts")


async def test_orders_wait_while_a_successor_takes_over(tmp_path: Path, running_bus: Bus) -> None:
    async with server(tmp_path / "ns1", running_bus) as one, server(tmp_path / "ns2", running_bus) as two:
        await ready(one, two)
        async with two.manager.handing_over:
            await one.say("drain")
            await until(lambda: two.manager.orders.orders, "the order arrives")
            assert not drained(two)
        await until(lambda: drained(two), "the order counts")


async def test_a_refused_order_is_pending_and_the_reason_is_said(
    tmp_path: Path, running_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server(tmp_path / "ns1", running_bus) as one, connected(running_bus) as operator:
        await ready(one)
        assert operator.client
        stream = operator.client.jetstream()
        found = await stream.stream_info(f"KV_{BUCKET}")
        await stream.update_stream(replace(found.config, max_msg_size=50))
        [note] = (await one.say("drain"))["notes"]
        assert "an order cannot be stored: JetStream: message size exceeds maximum allowed" in note
        assert one.sharing.document()["pending"] == 1
        await stream.update_stream(replace(found.config, max_msg_size=-1))
        await until(lambda: not one.manager.orders.pending, "the order is stored")
        assert one.sharing.document()["connected"]


def test_a_server_is_cut_off_until_the_bucket_is_read(tmp_path: Path) -> None:
    sharing = OverrideSharing(BusConnection(EventLog()), (KEY,), EventLog())
    assert sharing.document()["connected"] is False
