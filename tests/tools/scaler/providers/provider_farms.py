"""One farm for each provider, on which the shared tests run: real processes, real commands, and fake clouds."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.programs import web_content
from lbdns_tools.scaler.providers.command_provider import CommandConfig, CommandProvider
from lbdns_tools.scaler.providers.ec2_provider import Ec2Config, Ec2Provider
from lbdns_tools.scaler.providers.lab_provider import LabConfig, LabProvider
from lbdns_tools.scaler.providers.openstack_provider import OpenStackConfig, OpenStackProvider
from lbdns_tools.scaler.providers.provider import Provider
from tests.tools.lab.lab_machines import needs_a_lab, network_of
from tests.tools.scaler.providers.fake_ec2 import FakeEc2
from tests.tools.scaler.providers.fake_openstack import FakeOpenStack
from tests.tools.scaler.providers.local_machines import cleaned, local_farm
from tests.tools.scaler.providers.machine_waits import until_gone

QUOTA: Final = 3
FARM: Final = "web-"
NO_PAUSES: Final = (0.0, 0.0)


@dataclass(frozen=True)
class Farm:
    """``open`` returns a new provider of the servers of a farm, as a restarted scaler does."""

    open: Callable[[str], Provider]
    scripts: Callable[[], list[str]] | None = None  # the user data of all servers, if the provider uses it


@contextlib.asynccontextmanager
async def processes(folder: Path, _: pytest.MonkeyPatch) -> AsyncIterator[Farm]:
    async with cleaned(replace(local_farm(folder, QUOTA), farm=FARM)) as farm:
        yield Farm(lambda name: replace(farm, farm=name).provider())


@contextlib.asynccontextmanager
async def command(folder: Path, _: pytest.MonkeyPatch) -> AsyncIterator[Farm]:
    tool = (sys.executable, str(Path(__file__).with_name("machine_tool.py")), str(folder))
    (folder / "quota").write_text(str(QUOTA))
    config = CommandConfig(
        list=(*tool, "list", "{farm}"),
        create=(*tool, "create", "{farm}", "{name}", "{user_data_file}"),
        delete=(*tool, "delete", "{farm}", "{name}"),
        start=(*tool, "start", "{farm}", "{name}"),
        stop=(*tool, "stop", "{farm}", "{name}"),
    )
    yield Farm(
        lambda name: CommandProvider(config, name), lambda: [path.read_text() for path in folder.glob("web*.json")]
    )


@contextlib.asynccontextmanager
async def openstack(_: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Farm]:
    async with FakeOpenStack(QUOTA) as cloud:
        for key, value in cloud.environment().items():
            monkeypatch.setenv(key, value)
        config = OpenStackConfig("debian-12", "small", networks=("private",))
        yield Farm(
            lambda name: OpenStackProvider(config, name, NO_PAUSES),
            lambda: [server["script"] for server in cloud.servers.values()],
        )


@contextlib.asynccontextmanager
async def ec2(_: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Farm]:
    async with FakeEc2(QUOTA) as cloud:
        for key, value in cloud.environment().items():
            monkeypatch.setenv(key, value)
        config = Ec2Config("ami-1", "t3.small", endpoint=cloud.url)
        yield Farm(
            lambda name: Ec2Provider(config, name, NO_PAUSES),
            lambda: [instance["script"] for instance in cloud.instances.values()],
        )


@contextlib.asynccontextmanager
async def lab(folder: Path, _: pytest.MonkeyPatch) -> AsyncIterator[Farm]:
    """Yield a farm in a lab without web hosts of its own. Nobody receives the agents' reports."""
    agent = local_farm(folder).agent
    with network_of(LabFarm(())) as network:
        web_content.write_content(network.folder / web_content.FOLDER)
        config = LabConfig(network.id, folder / "servers", workers=2, quota=QUOTA, cpu=0.5)
        yield Farm(lambda name: LabProvider(config, agent, name))
        provider = LabProvider(config, agent, FARM)
        for machine in await provider.machines():
            await provider.delete(machine.name)
        for machine in await provider.machines():
            await until_gone(provider, machine.name)


OpenFarm = Callable[[Path, pytest.MonkeyPatch], AbstractAsyncContextManager[Farm]]
FARMS: Final[Mapping[str, OpenFarm]] = {
    "processes": processes, "command": command, "openstack": openstack, "ec2": ec2, "lab": lab,
}  # fmt: skip
#: The farms as parameters of a test, with what they need of the machine that runs the tests
FARM_PARAMETERS: Final = [pytest.param(name, marks=needs_a_lab) if name == "lab" else name for name in FARMS]
