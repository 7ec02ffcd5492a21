"""Tests of the nats-servers that tests and tools run: a cluster, and the death of one of its servers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from lbdns.bus.bus_bucket import BusBucket
from lbdns.bus.bus_connection import BusConnection, BusError
from lbdns.events.event_log import EventLog
from lbdns.secrets.bus_access import BusAccess
from lbdns_shared.bus_url import parse_bus_url
from lbdns_tools.nats_servers import SERVER, NatsServers, answers
from tests.bus.bus_fixtures import until
from tests.needs import needs

pytestmark = needs(programs=("nats-server",))
LONGEST_S = 60.0  # until a cluster has elected its leaders on a busy machine


@contextlib.asynccontextmanager
async def bucket(nats: NatsServers, copies: int) -> AsyncIterator[BusBucket]:
    """Follow a bucket over whichever server is up."""
    connection = BusConnection(EventLog())
    found = BusBucket(connection, "lbdns_overrides")
    found.copies = copies
    connection.use(BusAccess(tuple(parse_bus_url(nats.url(node.number, SERVER)) for node in nats.nodes)))
    found.start()
    try:
        yield found
    finally:
        await found.stop()
        await connection.stop()


async def test_a_bucket_with_three_copies_survives_the_death_of_a_server(tmp_path: Path) -> None:
    with NatsServers(tmp_path, (), 3, jetstream=True) as nats:
        nats.start()
        async with bucket(nats, copies=3) as one, bucket(nats, copies=3) as two:
            await until(lambda: not (one.problem or two.problem), "the bucket is created", LONGEST_S)
            await store(one, b"first")
            await until(lambda: two.revision("key") == one.revision("key"), "the record arrives", LONGEST_S)
            for number in range(3):
                nats.kill(number)
                assert not answers(nats.nodes[number].port)
                await store(one, b"%d" % number)
                await until(lambda: two.revision("key") == one.revision("key"), "the record arrives", LONGEST_S)
                nats.start(number)


async def store(bucket: BusBucket, value: bytes) -> None:
    """Store a record as soon as a leader accepts it."""
    end = asyncio.get_running_loop().time() + LONGEST_S
    while True:
        try:
            await bucket.put("key", value)
        except BusError:
            assert asyncio.get_running_loop().time() < end, bucket.problem
            await asyncio.sleep(0.05)
        else:
            return


async def test_one_server_cannot_store_three_copies(tmp_path: Path) -> None:
    with NatsServers(tmp_path, (), jetstream=True) as nats:
        nats.start()
        async with bucket(nats, copies=3) as found:
            await until(lambda: "replicas > 1 not supported" in found.problem, "the reason is shown")
