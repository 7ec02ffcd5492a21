"""Tests of the provider ``processes``: crashes of the scaler at every step leave no orphan and no double."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lbdns_shared.endpoint import Endpoint
from lbdns_tools.scaler.providers import process_provider
from lbdns_tools.scaler.providers.agent_settings import AgentSettings
from lbdns_tools.scaler.providers.machine_folder import MachineFolder
from lbdns_tools.scaler.providers.process_provider import ProcessProvider
from lbdns_tools.scaler.providers.provider import MachineStatus
from tests.end_to_end.process import descendants, eventually
from tests.tools.scaler.providers.local_machines import LocalFarm, cleaned, local_farm, processes_of, supervisor
from tests.tools.scaler.providers.machine_waits import until, until_gone

BUILDING, RUNNING, STOPPED, FAILED = (
    MachineStatus.BUILDING, MachineStatus.RUNNING, MachineStatus.STOPPED, MachineStatus.FAILED,
)  # fmt: skip


@pytest.fixture
async def farm(tmp_path: Path) -> AsyncIterator[LocalFarm]:
    async with cleaned(local_farm(tmp_path)) as found:
        yield found


STEPS = ("mkdir", "rename", "clear", "spawn", "spawned", "stop", "delete", "delete-rename")
#: Runs a step of a provider's work in another process, and ends that process like kill -9 does, in the middle
CRASH = """
import asyncio, os, sys
from pathlib import Path
from lbdns_tools.scaler.providers import machine_folder, process_provider
from tests.tools.scaler.providers import test_process_provider_crashes as tests

step, provider = sys.argv[1], tests.crash_provider(sys.argv[2:])

def die(*_, **__):
    os.kill(os.getpid(), 9)

def after(function):
    def call(*arguments, **options):
        function(*arguments, **options)
        die()
    return call

folder = machine_folder.MachineFolder
if step == "mkdir":
    folder.write_machine = die
elif step == "rename":
    process_provider.ProcessProvider._launch = die
elif step == "clear":
    folder.clear_progress = after(folder.clear_progress)
elif step == "spawn":
    os.posix_spawn = die
elif step == "spawned":
    os.posix_spawn = after(os.posix_spawn)
elif step in ("stop", "delete"):
    folder.send = die
elif step == "delete-rename":
    process_provider.shutil.rmtree = die
call = provider.stop("web-1") if step == "stop" else provider.delete("web-1") if "delete" in step else None
asyncio.run(call or provider.create("web-1", ""))
"""


def crash_provider(words: list[str]) -> ProcessProvider:
    """Return the provider that the arguments of CRASH describe."""
    folder, port, key_file, collector = words
    config = process_provider.ProcessesConfig(folder=Path(folder), port=int(port), workers=2, quota=3)
    agent = AgentSettings((Endpoint("127.0.0.1", int(collector)),), "web", Path(key_file), 0.5)
    return ProcessProvider(config, agent, "web")


async def crash(farm: LocalFarm, step: str) -> None:
    words = (farm.config.folder, farm.config.port, farm.agent.key_file, farm.agent.collectors[0].port)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", CRASH, step, *map(str, words))
    assert await process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("step", STEPS)
async def test_a_crash_leaves_no_orphan_and_no_double(farm: LocalFarm, step: str) -> None:
    if step in ("stop", "delete", "delete-rename"):
        await farm.provider().create("web-1", "")
        await until(farm.provider(), "web-1", RUNNING)
    if step == "delete-rename":
        await farm.provider().stop("web-1")
        await until(farm.provider(), "web-1", STOPPED)
    await crash(farm, step)
    provider = farm.provider()
    if step == "stop":
        await provider.stop("web-1")
        await until(provider, "web-1", STOPPED)
        await provider.start("web-1")
    elif step == "delete":
        await provider.delete("web-1")
        await until_gone(provider, "web-1")
    if "delete" in step:
        assert await provider.machines() == ()
        assert not os.listdir(farm.config.folder)
    await provider.create("web-1", "")
    await until(provider, "web-1", RUNNING)
    assert [machine.name for machine in await provider.machines()] == ["web-1"]
    assert os.listdir(farm.config.folder) == ["web-1"]
    pid = supervisor(farm, "web-1")
    assert processes_of(farm.config.folder) <= {pid, *descendants(pid)}
    await provider.delete("web-1")
    await until_gone(provider, "web-1")
    eventually(lambda: not processes_of(farm.config.folder), "no process is left")


async def test_a_look_does_not_keep_a_machine_from_starting(farm: LocalFarm) -> None:
    """Whoever looks whether a server runs holds its lock for a moment."""
    provider = farm.provider()
    await crash(farm, "spawn")
    lock = MachineFolder(farm.config.folder / "web-1").lock()
    assert lock is not None
    asyncio.get_running_loop().call_later(0.03, os.close, lock)
    await provider.create("web-1", "")
    await until(provider, "web-1", RUNNING)


async def test_a_crash_before_the_supervisor_shows_as_failed(farm: LocalFarm) -> None:
    await crash(farm, "rename")
    assert (await until(farm.provider(), "web-1", FAILED)).created == 0.0
