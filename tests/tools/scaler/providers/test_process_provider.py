"""Tests of the provider ``processes`` with real processes: deletions, failures, keys and addresses."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import stat
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError
from lbdns_shared.keys import read_key_file
from lbdns_tools.scaler.providers import process_provider
from lbdns_tools.scaler.providers.machine_folder import KEY_FILE
from lbdns_tools.scaler.providers.machine_supervisor import INJECTED
from lbdns_tools.scaler.providers.process_provider import ProcessProvider
from lbdns_tools.scaler.providers.provider import MachineStatus, ProviderError, QuotaError
from tests.end_to_end.harness import new_site, serving
from tests.end_to_end.process import alive, descendants, eventually
from tests.tools.scaler.providers.local_machines import LocalFarm, cleaned, local_farm, supervisor
from tests.tools.scaler.providers.machine_waits import find, until, until_gone

BUILDING, RUNNING, STOPPED, FAILED = (
    MachineStatus.BUILDING, MachineStatus.RUNNING, MachineStatus.STOPPED, MachineStatus.FAILED,
)  # fmt: skip


@pytest.fixture
async def farm(tmp_path: Path) -> AsyncIterator[LocalFarm]:
    async with cleaned(local_farm(tmp_path)) as found:
        yield found


def get(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=60) as response:
        text: str = response.read().decode()
    return text


def responds(url: str) -> bool:
    try:
        return bool(get(url))
    except OSError:
        return False


async def test_a_machine_serves_pages_and_joins_the_pool(tmp_path: Path) -> None:
    site = new_site(tmp_path, {"gandalf": ["127.0.0.18"]})
    site.write(pool='join = { names = "web-*", networks = ["127.0.0.0/8"], leave_after = "1h" }')
    farm = local_farm(tmp_path, collector=Endpoint("127.0.0.1", site.report_port), key_file=site.key_file)
    farm = replace(farm, agent=replace(farm.agent, interval=20.0))
    with serving(site):
        async with cleaned(farm):
            provider = farm.provider()
            await provider.create("web-1", "")
            machine = await until(provider, "web-1", RUNNING)
            url = f"http://{machine.addresses[0]}:{farm.config.port}/"

            def state() -> str:
                return str(site.members_by_name().get("web-1", {}).get("state"))

            await asyncio.to_thread(eventually, lambda: responds(url), "the web server responds")
            assert "<h1>web-1</h1>" in get(url)
            await asyncio.to_thread(eventually, lambda: state() == "usable", "the agent joins", 120)
            assert site.members_by_name()["web-1"]["addresses"] == list(machine.addresses)
            await provider.stop("web-1")
            # Without a last report, the member would be silent after 3 intervals
            waited = await asyncio.to_thread(eventually, lambda: state() == "silent", "the agent says good-bye", 120)
            assert waited < 2 * farm.agent.interval
            await until(provider, "web-1", STOPPED)


async def test_each_machine_has_a_private_key_for_its_own_name(farm: LocalFarm) -> None:
    provider = farm.provider()
    await provider.create("web-1", "")
    path = farm.config.folder / "web-1" / KEY_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert farm.agent.key_file
    master = read_key_file(farm.agent.key_file)[0].masters[0]
    keys, warnings = read_key_file(path)
    assert (keys.masters, keys.agents, warnings) == ((), (master.agent_key("web-1"),), [])
    secret = base64.b64encode(master.secret)
    files = [file for file in path.parent.rglob("*") if file.is_file()]
    assert not [file for file in files if secret in file.read_bytes()]


async def test_machines_have_distinct_addresses_and_use_freed_ones_again(farm: LocalFarm) -> None:
    provider = farm.provider()
    for name in ("web-1", "web-2"):
        await provider.create(name, "")
    addresses = {machine.name: machine.addresses for machine in await provider.machines()}
    assert addresses == {"web-1": ("127.0.1.1",), "web-2": ("127.0.1.2",)}
    await provider.delete("web-1")
    await until_gone(provider, "web-1")
    await provider.create("web-3", "")
    found = await find(provider, "web-3")
    assert found
    assert found.addresses == ("127.0.1.1",)


async def test_another_farm_in_the_same_folder(farm: LocalFarm) -> None:
    provider, other = farm.provider(), LocalFarm(farm.config, farm.agent, "other").provider()
    await provider.create("web-1", "")
    assert await other.machines() == ()
    with pytest.raises(ProviderError, match="belongs to farm 'web', not to 'other'"):
        await other.delete("web-1")
    await other.create("web-2", "")
    found = await find(other, "web-2")
    assert found
    assert found.addresses == ("127.0.1.2",)
    await other.delete("web-2")
    await until_gone(other, "web-2")


async def test_a_boot_delay_shows_as_building(farm: LocalFarm) -> None:
    provider = farm.provider(boot_delay=3600.0)
    await provider.create("web-1", "")
    assert (await until(provider, "web-1", BUILDING)).created > 0
    eventually(lambda: supervisor(farm, "web-1"), "the supervisor runs")
    await asyncio.sleep(0.2)
    assert (await until(provider, "web-1", BUILDING)).status is BUILDING
    await provider.delete("web-1")
    await until_gone(provider, "web-1")


async def test_an_injected_failure(farm: LocalFarm) -> None:
    provider = farm.provider(fail_boot=("web-1*",))
    await provider.create("web-1", "")
    failed = await until(provider, "web-1", FAILED)
    assert (failed.detail, failed.created) == (INJECTED, 0.0)
    await provider.create("web-2", "")
    await until(provider, "web-2", RUNNING)


async def test_a_port_that_is_in_use_fails_the_machine(farm: LocalFarm) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.1.1", farm.config.port)
    async with server:
        provider = farm.provider()
        await provider.create("web-1", "")
        detail = (await until(provider, "web-1", FAILED)).detail
    assert detail.startswith("the web server exited with status 1: web server web-1: ")
    assert "in use" in detail
    await provider.start("web-1")
    await until(provider, "web-1", RUNNING)


@pytest.mark.parametrize("victim", ["supervisor", "child"])
async def test_killed_processes_fail_the_machine(farm: LocalFarm, victim: str) -> None:
    provider = farm.provider()
    await provider.create("web-1", "")
    await until(provider, "web-1", RUNNING)
    pid = supervisor(farm, "web-1")
    children = descendants(pid)
    assert len(children) == 2
    os.kill(pid if victim == "supervisor" else min(children), signal.SIGKILL)
    detail = (await until(provider, "web-1", FAILED)).detail
    expected = "the server's processes ended unexpectedly" if victim == "supervisor" else "was killed by SIGKILL"
    assert expected in detail
    eventually(lambda: not alive(children), "the children end too")
    await provider.start("web-1")
    await until(provider, "web-1", RUNNING)


async def test_a_supervisor_that_does_not_react_is_killed(farm: LocalFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_provider, "KILL_AFTER", 0.2)
    provider = farm.provider()
    await provider.create("web-1", "")
    await until(provider, "web-1", RUNNING)
    pid = supervisor(farm, "web-1")
    children = descendants(pid)
    os.kill(pid, signal.SIGSTOP)
    await provider.delete("web-1")
    await until_gone(provider, "web-1")
    eventually(lambda: not alive({pid, *children}), "no process is left")


async def test_a_signal_never_reaches_another_process(farm: LocalFarm) -> None:
    """The ID of a supervisor that has ended may belong to another process later."""
    provider = farm.provider()
    await provider.create("web-1", "")
    await until(provider, "web-1", RUNNING)
    await provider.stop("web-1")
    await until(provider, "web-1", STOPPED)
    path = farm.config.folder / "web-1" / "progress.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid": os.getpid()}))
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        await provider.stop("web-1")
        await provider.delete("web-1")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not received


async def test_a_start_while_the_machine_stops(farm: LocalFarm) -> None:
    provider = farm.provider()
    await provider.create("web-1", "")
    await until(provider, "web-1", RUNNING)
    pid = supervisor(farm, "web-1")
    os.kill(pid, signal.SIGSTOP)
    await provider.stop("web-1")
    with pytest.raises(ProviderError, match="it is still stopping"):
        await provider.start("web-1")
    os.kill(pid, signal.SIGCONT)
    await until(provider, "web-1", STOPPED)


async def test_a_deleted_name_is_not_created_before_it_is_gone(farm: LocalFarm) -> None:
    provider = farm.provider()
    await provider.create("web-1", "")
    await until(provider, "web-1", RUNNING)
    await provider.delete("web-1")
    with pytest.raises(ProviderError, match="is being deleted"):
        await provider.create("web-1", "")
    with pytest.raises(ProviderError, match="is being deleted"):
        await provider.start("web-1")
    await until_gone(provider, "web-1")


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".hidden", "Web", "-x", "a" * 64])
async def test_names_that_are_no_host_names(farm: LocalFarm, name: str) -> None:
    provider = farm.provider()
    for request in (provider.create(name, ""), provider.start(name), provider.stop(name), provider.delete(name)):
        with pytest.raises(ProviderError, match="is not a host name"):
            await request


async def test_a_missing_master_key(farm: LocalFarm) -> None:
    assert farm.agent.key_file
    farm.agent.key_file.unlink()
    with pytest.raises(ProviderError, match=r"cannot create web-1: .*report\.key: cannot read the key file"):
        await farm.provider().create("web-1", "")
    assert await farm.provider().machines() == ()


async def test_a_network_without_a_free_address(tmp_path: Path) -> None:
    farm = local_farm(tmp_path, quota=10)
    small = ProcessProvider(
        process_provider.ProcessesConfig(
            farm.config.folder, process_provider._network("127.0.1.0/31"), farm.config.port, boot_delay=60.0
        ),
        farm.agent,
        "web",
    )
    async with cleaned(farm):
        assert await small.quota() == 2
        for name in ("web-1", "web-2"):
            await small.create(name, "")
        with pytest.raises(QuotaError, match="the quota of 2 servers is used up"):
            await small.create("web-3", "")


async def test_another_process_may_list_the_machines_at_any_time(farm: LocalFarm) -> None:
    """A dry run lists servers while the scaler creates and deletes them."""
    provider, done = farm.provider(), asyncio.Event()
    folder = farm.config.folder

    def look() -> None:
        other = farm.provider()
        while not done.is_set():
            asyncio.run(other.machines())

    listing = asyncio.create_task(asyncio.to_thread(look))
    for number in range(10):
        await provider.create(f"web-{number}", "")
        await asyncio.sleep(0.02)
        await provider.delete(f"web-{number}")
        await until_gone(provider, f"web-{number}")
    done.set()
    await listing
    assert await provider.machines() == ()
    assert not os.listdir(folder)


@pytest.mark.parametrize("network", ["10.0.0.0/24", "::1/128", "127.0.0.0/7", "x"])
def test_networks_that_are_not_loopback_networks(network: str) -> None:
    with pytest.raises((ValueError, ConfigError)):
        process_provider._network(network)
