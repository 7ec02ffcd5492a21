"""Tests of single flight: waiting clients share one build, and no document is older than its request."""

from __future__ import annotations

import asyncio

import pytest

from lbdns_collector.web.single_flight import SingleFlight
from tests.collector.collector_fixtures import until


class Building:
    def __init__(self) -> None:
        self.begun = 0
        self.go = asyncio.Event()
        self.shared = SingleFlight(self._build)

    async def _build(self) -> bytes:
        self.begun += 1
        number = self.begun
        await self.go.wait()
        return b"%d" % number


async def test_concurrent_requests_share_one_build() -> None:
    building = Building()
    building.go.set()
    assert set(await asyncio.gather(*(building.shared.get() for _ in range(1000)))) == {b"1"}
    assert building.begun == 1


async def test_a_later_request_gets_a_later_build() -> None:
    building = Building()
    first = asyncio.create_task(building.shared.get())
    await until(lambda: building.begun)
    later = [asyncio.create_task(building.shared.get()) for _ in range(100)]
    await asyncio.sleep(0)
    building.go.set()
    assert await first == b"1"
    assert set(await asyncio.gather(*later)) == {b"2"}


async def test_a_cancelled_request_does_not_cancel_the_build() -> None:
    building = Building()
    one, other = (asyncio.create_task(building.shared.get()) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    building.go.set()
    assert await other == b"1"


async def test_a_failure_reaches_all_waiting_requests_only() -> None:
    failures = iter([ValueError("no")])

    async def build() -> bytes:
        await asyncio.sleep(0)
        for failure in failures:
            raise failure
        return b"well"

    shared = SingleFlight(build)
    assert [str(found) for found in await asyncio.gather(shared.get(), shared.get(), return_exceptions=True)] == [
        "no", "no",
    ]  # fmt: skip
    assert await shared.get() == b"well"


async def test_stop_cancels_the_build() -> None:
    building = Building()
    waiting = asyncio.create_task(building.shared.get())
    await asyncio.sleep(0)
    await building.shared.stop()
    with pytest.raises(asyncio.CancelledError):
        await waiting
