"""The promises of the interface ``Provider``, tested with every provider."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from lbdns_tools.scaler.providers.provider import MachineStatus, Provider, ProviderError, QuotaError
from lbdns_tools.scaler.providers.provider_table import PROVIDERS
from tests.tools.scaler.providers.machine_waits import find, until, until_gone
from tests.tools.scaler.providers.provider_farms import FARM, FARM_PARAMETERS, FARMS, QUOTA, Farm

BUILDING, RUNNING, STOPPED = MachineStatus.BUILDING, MachineStatus.RUNNING, MachineStatus.STOPPED
SCRIPT = "#!/bin/sh\necho 'höst'\n"


async def it_begins_empty(farm: Farm, provider: Provider) -> None:
    assert await provider.machines() == ()


async def a_created_machine_runs(farm: Farm, provider: Provider) -> None:
    before = time.time()
    await provider.create("web-1", SCRIPT)
    machine = await until(provider, "web-1", RUNNING)
    assert machine.addresses
    assert before - 2 < machine.created < time.time() + 2  # clouds report whole seconds
    if farm.scripts:
        (script,) = farm.scripts()
        assert SCRIPT in script or SCRIPT.encode("unicode_escape").decode().replace("\\xf6", "\\u00f6") in script


async def creation_is_idempotent(farm: Farm, provider: Provider) -> None:
    for _ in range(3):
        await provider.create("web-1", SCRIPT)
    await until(provider, "web-1", RUNNING)
    await provider.create("web-1", SCRIPT)
    assert [machine.name for machine in await provider.machines()] == ["web-1"]


async def a_machine_stops_and_starts_again(farm: Farm, provider: Provider) -> None:
    await provider.create("web-1", SCRIPT)
    first = await until(provider, "web-1", RUNNING)
    await provider.stop("web-1")
    stopped = await until(provider, "web-1", STOPPED)
    assert stopped.created == 0.0
    await provider.stop("web-1")
    assert (await until(provider, "web-1", STOPPED)).status is STOPPED
    await asyncio.sleep(1.0 - time.time() % 1.0)  # clouds report whole seconds
    started = time.time()
    await provider.start("web-1")
    again = await until(provider, "web-1", RUNNING)
    assert again.created >= started - 1
    assert again.addresses == first.addresses
    await provider.start("web-1")
    assert (await until(provider, "web-1", RUNNING)).created == again.created


async def deletion_is_idempotent(farm: Farm, provider: Provider) -> None:
    await provider.create("web-1", SCRIPT)
    await until(provider, "web-1", RUNNING)
    await provider.delete("web-1")
    await provider.delete("web-1")
    await until_gone(provider, "web-1")
    await provider.delete("web-1")
    assert await provider.machines() == ()


async def a_machine_can_be_deleted_in_any_condition(farm: Farm, provider: Provider) -> None:
    await provider.create("web-1", SCRIPT)
    await provider.delete("web-1")
    await until_gone(provider, "web-1")
    await provider.create("web-2", SCRIPT)
    await until(provider, "web-2", RUNNING)
    await provider.stop("web-2")
    await provider.delete("web-2")
    await until_gone(provider, "web-2")
    await provider.create("web-3", SCRIPT)
    await until(provider, "web-3", RUNNING)
    await provider.stop("web-3")
    await until(provider, "web-3", STOPPED)
    await provider.delete("web-3")
    await until_gone(provider, "web-3")


async def a_name_can_be_used_again(farm: Farm, provider: Provider) -> None:
    for _ in range(3):
        await provider.create("web-1", SCRIPT)
        await until(provider, "web-1", RUNNING)
        await provider.delete("web-1")
        await until_gone(provider, "web-1")


async def the_quota_is_kept(farm: Farm, provider: Provider) -> None:
    assert await provider.quota() in (QUOTA, None)
    for number in range(QUOTA):
        await provider.create(f"web-{number}", SCRIPT)
    with pytest.raises(QuotaError):
        await provider.create("web-9", SCRIPT)
    await provider.create("web-0", SCRIPT)
    assert await provider.quota() in (QUOTA, None)
    assert {machine.name for machine in await provider.machines()} == {f"web-{number}" for number in range(QUOTA)}
    await provider.delete("web-0")
    await until_gone(provider, "web-0")
    await provider.create("web-9", SCRIPT)
    await until(provider, "web-9", RUNNING)


async def a_restarted_scaler_finds_its_machines(farm: Farm, provider: Provider) -> None:
    await provider.create("web-1", SCRIPT)
    await provider.create("web-2", SCRIPT)
    await provider.close()
    again = farm.open(FARM)
    try:
        assert {machine.name for machine in await again.machines()} == {"web-1", "web-2"}
        await again.create("web-1", SCRIPT)
        await until(again, "web-1", RUNNING)
        await again.stop("web-1")
        await again.delete("web-2")
        await until_gone(again, "web-2")
        await until(again, "web-1", STOPPED)
    finally:
        await again.close()


async def farms_do_not_see_each_other(farm: Farm, provider: Provider) -> None:
    other = farm.open("other")
    try:
        await provider.create("web-1", SCRIPT)
        await until(provider, "web-1", RUNNING)
        assert await other.machines() == ()
        for request in (other.stop, other.start):
            with pytest.raises(ProviderError):
                await request("web-1")
        assert (await until(provider, "web-1", RUNNING)).status is RUNNING
    finally:
        await other.close()


async def machines_that_do_not_exist(farm: Farm, provider: Provider) -> None:
    for request in (provider.start, provider.stop):
        with pytest.raises(ProviderError):
            await request("web-1")
    await provider.delete("web-1")
    assert await provider.machines() == ()


async def requests_may_run_concurrently(farm: Farm, provider: Provider) -> None:
    names = [f"web-{number}" for number in range(QUOTA)]
    await asyncio.gather(*(provider.create(name, SCRIPT) for name in names))
    await asyncio.gather(*(until(provider, name, RUNNING) for name in names))
    await asyncio.gather(*(provider.delete(name) for name in names))
    await asyncio.gather(*(until_gone(provider, name) for name in names))
    assert await find(provider, "web-0") is None


CONTRACT: dict[str, Callable[[Farm, Provider], Awaitable[None]]] = {
    promise.__name__: promise
    for promise in (
        it_begins_empty, a_created_machine_runs, creation_is_idempotent, a_machine_stops_and_starts_again,
        deletion_is_idempotent, a_machine_can_be_deleted_in_any_condition, a_name_can_be_used_again,
        the_quota_is_kept, a_restarted_scaler_finds_its_machines, farms_do_not_see_each_other,
        machines_that_do_not_exist, requests_may_run_concurrently,
    )
}  # fmt: skip


@pytest.fixture(params=FARM_PARAMETERS)
async def farm(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Farm]:
    async with FARMS[request.param](tmp_path, monkeypatch) as found:
        yield found


@pytest.mark.parametrize("promise", CONTRACT)
async def test_promise(farm: Farm, promise: str) -> None:
    provider = farm.open(FARM)
    try:
        await CONTRACT[promise](farm, provider)
    finally:
        await provider.close()


def test_every_provider_is_tested() -> None:
    assert set(FARMS) == set(PROVIDERS)
