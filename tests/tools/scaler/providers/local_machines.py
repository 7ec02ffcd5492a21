"""A provider of local servers on free ports, whose servers are always deleted at the end of a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

from lbdns_shared.endpoint import Endpoint
from lbdns_shared.keys import new_master_key
from lbdns_tools.free_ports import free_ports
from lbdns_tools.scaler.providers.agent_settings import AgentSettings
from lbdns_tools.scaler.providers.machine_folder import MachineFolder
from lbdns_tools.scaler.providers.process_provider import ProcessesConfig, ProcessProvider
from tests.end_to_end.process import alive
from tests.tools.scaler.providers.machine_waits import until_gone


@dataclass(frozen=True)
class LocalFarm:
    """The settings of a farm of local servers."""

    config: ProcessesConfig
    agent: AgentSettings
    farm: str = "web"

    def provider(self, **changes: object) -> ProcessProvider:
        return ProcessProvider(replace(self.config, **changes), self.agent, self.farm)  # type: ignore[arg-type]


def local_farm(
    folder: Path, quota: int = 3, collector: Endpoint | None = None, key_file: Path | None = None
) -> LocalFarm:
    """Return a farm on free ports. Without ``collector``, nobody receives its reports."""
    web, report = free_ports(2)
    if key_file is None:
        key_file = folder / "report.key"
        key_file.touch(0o600)
        key_file.write_text(new_master_key().line() + "\n")
    agent = AgentSettings((collector or Endpoint("127.0.0.1", report),), "web", key_file, 0.5)
    return LocalFarm(ProcessesConfig(folder=folder / "servers", port=web, workers=2, quota=quota), agent)


@contextlib.asynccontextmanager
async def cleaned(farm: LocalFarm) -> AsyncIterator[LocalFarm]:
    """Delete all servers of the farm at the end."""
    try:
        yield farm
    finally:
        provider = farm.provider()
        names = [machine.name for machine in await provider.machines()]
        for name in names:
            await provider.delete(name)
        await asyncio.gather(*(until_gone(provider, name) for name in names))
        await provider.close()


def supervisor(farm: LocalFarm, name: str) -> int:
    return MachineFolder(farm.config.folder / name).progress().pid


def processes_of(folder: Path) -> set[int]:
    """Return the processes whose command line names a path below ``folder``."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes():
                found.add(int(path.parent.name))
        except OSError:
            continue
    return alive(found)
