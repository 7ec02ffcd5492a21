"""Tests of following a bucket, with a real nats-server with JetStream, in the test's event loop."""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from lbdns.bus.bus_bucket import BucketChangedError, BucketRecord, BusBucket
from lbdns.bus.bus_connection import BusConnection, BusError
from lbdns_tools.nats_servers import SERVER, WIDE
from tests.bus.bus_fixtures import connected, until
from tests.end_to_end.nats_bus import Bus, new_bus, serving_bus
from tests.needs import needs

pytestmark = needs(programs=("nats-server",))
KEY = "drain.a=2Ez.="


class Seen:
    """What a bucket reports to its owner."""

    def __init__(self, bus: BusConnection) -> None:
        self.bucket = BusBucket(bus, "lbdns_overrides")
        self.reads: list[Sequence[BucketRecord]] = []
        self.records: list[BucketRecord] = []
        self.bucket.on_read, self.bucket.on_record = self.reads.append, self.records.append
        self.bucket.start()


@contextlib.asynccontextmanager
async def following(bus: Bus, user: str = SERVER) -> AsyncIterator[Seen]:
    async with connected(bus, user) as connection:
        seen = Seen(connection)
        try:
            yield seen
        finally:
            await seen.bucket.stop()


@pytest.fixture
def bus(tmp_path: Path) -> Bus:
    return new_bus(tmp_path, jetstream=True)


@pytest.fixture
def running_bus(bus: Bus) -> Iterator[Bus]:
    with serving_bus(bus):
        yield bus


async def test_records_reach_every_program_and_a_new_one_reads_them(running_bus: Bus) -> None:
    async with following(running_bus) as one, following(running_bus) as two:
        await until(lambda: one.reads and two.reads, "the bucket is created and read")
        assert (one.reads, two.reads) == ([()], [()])
        assert await one.bucket.put(KEY, b"x") == 1
        await until(lambda: two.records, "the record arrives")
        assert await two.bucket.put(KEY, b"y") == 2
        await until(lambda: len(one.records) == 2, "its own record and the other one arrive")
        assert one.records == [BucketRecord(KEY, b"x", 1), BucketRecord(KEY, b"y", 2)]
        async with following(running_bus) as three:
            await until(lambda: three.reads, "the bucket is read")
            assert three.reads == [(BucketRecord(KEY, b"y", 2),)]


async def test_a_record_that_another_program_has_replaced_is_not_overwritten(running_bus: Bus) -> None:
    async with following(running_bus) as one:
        await until(lambda: one.reads, "the bucket is read")
        await one.bucket.put(KEY, b"x")
        one.bucket._revisions.clear()  # as if the record had not arrived yet
        with pytest.raises(BucketChangedError):
            await one.bucket.put(KEY, b"y")
        assert one.bucket.problem == ""


async def test_a_deleted_record_is_reported(running_bus: Bus) -> None:
    async with following(running_bus) as one, connected(running_bus, WIDE) as other:
        await until(lambda: one.reads, "the bucket is read")
        await one.bucket.put(KEY, b"x")
        assert other.client
        store = await other.client.jetstream().key_value("lbdns_overrides")
        await store.delete(KEY)
        await until(lambda: one.records[-1:] == [BucketRecord(KEY, b"", 2)], "the deletion arrives")
        assert await one.bucket.put(KEY, b"z") == 3


@pytest.mark.parametrize("keeps_store", [True, False])
async def test_a_restarted_server_is_read_again(bus: Bus, keeps_store: bool) -> None:
    with contextlib.ExitStack() as first:
        nats = first.enter_context(serving_bus(bus))
        async with following(bus) as seen:
            await until(lambda: seen.reads, "the bucket is read")
            await seen.bucket.put(KEY, b"x")
            nats.stop(signal.SIGKILL)
            await until(lambda: seen.bucket.problem, "the loss is noticed")
            with pytest.raises(BusError):
                await seen.bucket.put(KEY, b"y")
            if not keeps_store:
                shutil.rmtree(bus.store)
            with serving_bus(bus):
                await until(lambda: len(seen.reads) == 2, "the bucket is read again")
                assert seen.reads[1] == ((BucketRecord(KEY, b"x", 1),) if keeps_store else ())
                assert await seen.bucket.put(KEY, b"y") == (2 if keeps_store else 1)


async def test_a_deleted_bucket_is_created_again(running_bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbdns.bus.bus_bucket.CHECK_PERIOD", 0.2)
    async with following(running_bus) as one, connected(running_bus, WIDE) as other:
        await until(lambda: one.reads, "the bucket is read")
        await one.bucket.put(KEY, b"x")
        assert other.client
        await other.client.jetstream().delete_key_value("lbdns_overrides")
        await until(lambda: one.reads[1:] == [()], "the new bucket is read")


async def test_the_owner_can_ask_for_another_read(running_bus: Bus) -> None:
    async with following(running_bus) as one:
        await until(lambda: one.reads, "the bucket is read")
        one.bucket.read_again()
        await until(lambda: len(one.reads) == 2, "the bucket is read again")
        assert one.bucket.problem == ""


async def test_missing_permissions_and_a_missing_jetstream_are_reported(tmp_path: Path) -> None:
    without = new_bus(tmp_path)
    with serving_bus(without):
        async with following(without, SERVER) as refused:
            await until(lambda: "refuses messages of this program" in refused.bucket.problem, "the refusal is reported")
            assert "$js.api.stream.info" in refused.bucket.problem.lower()
        async with following(without, WIDE) as lacking:
            await until(lambda: lacking.bucket.problem.startswith("JetStream: "), "the missing JetStream is reported")
