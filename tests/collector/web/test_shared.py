"""One building for all who ask meanwhile, and nothing older than the question."""

from __future__ import annotations

import asyncio

import pytest

from lbdns_collector.web.shared import Shared
from tests.collector.making import until


class Building:
    def __init__(self) -> None:
        self.begun = 0
        self.go = asyncio.Event()
        self.shared = Shared(self._build)

    async def _build(self) -> bytes:
        self.begun += 1
        number = self.begun
        await self.go.wait()
        return b"%d" % number


async def test_many_who_ask_at_once_share_one() -> None:
    building = Building()
    building.go.set()
    assert set(await asyncio.gather(*(building.shared.get() for _ in range(1000)))) == {b"1"}
    assert building.begun == 1


async def test_who_asks_later_gets_what_was_begun_later() -> None:
    building = Building()
    first = asyncio.create_task(building.shared.get())
    await until(lambda: building.begun)
    later = [asyncio.create_task(building.shared.get()) for _ in range(100)]
    await asyncio.sleep(0)
    building.go.set()
    assert await first == b"1"
    assert set(await asyncio.gather(*later)) == {b"2"}


async def test_one_who_goes_away_ends_it_for_nobody() -> None:
    building = Building()
    one, other = (asyncio.create_task(building.shared.get()) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    building.go.set()
    assert await other == b"1"


async def test_a_failure_reaches_all_who_wait_and_nobody_after() -> None:
    failures = iter([ValueError("no")])

    async def build() -> bytes:
        await asyncio.sleep(0)
        for failure in failures:
            raise failure
        return b"well"

    shared = Shared(build)
    assert [str(found) for found in await asyncio.gather(shared.get(), shared.get(), return_exceptions=True)] == [
        "no", "no",
    ]  # fmt: skip
    assert await shared.get() == b"well"


async def test_stop_ends_what_is_being_built() -> None:
    building = Building()
    waiting = asyncio.create_task(building.shared.get())
    await asyncio.sleep(0)
    await building.shared.stop()
    with pytest.raises(asyncio.CancelledError):
        await waiting
