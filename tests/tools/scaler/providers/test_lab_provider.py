"""Tests of the provider ``lab`` in a lab's network: pages, reports, limits, and complete removal."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lbdns_agent.cgroup.cgroup_controllers import parse_flat_keyed
from lbdns_shared.errors import ConfigError
from lbdns_shared.report import Report, decode_body, open_envelope
from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.machines.control_groups import TOP, ControlGroup, find_hierarchies
from lbdns_tools.lab.machines.network_namespaces import inside, namespace_of
from lbdns_tools.lab.machines.placed_machine import NAMESPACES
from lbdns_tools.lab.machines.server_probes import get
from lbdns_tools.lab.programs import web_content
from lbdns_tools.lab.running_lab import Lab
from lbdns_tools.scaler.providers import lab_provider
from lbdns_tools.scaler.providers.agent_settings import AgentSettings
from lbdns_tools.scaler.providers.lab_provider import LabConfig, LabProvider
from lbdns_tools.scaler.providers.machine_folder import MachineFolder
from lbdns_tools.scaler.providers.provider import MachineStatus, ProviderError
from tests.end_to_end.process import alive, descendants, eventually
from tests.tools.lab.lab_machines import Machines, needs_a_lab, network_of
from tests.tools.scaler.providers.local_machines import local_farm
from tests.tools.scaler.providers.machine_waits import until, until_gone

RUNNING, STOPPED, FAILED = MachineStatus.RUNNING, MachineStatus.STOPPED, MachineStatus.FAILED
REPORT_PORT = 7777


@dataclass(frozen=True)
class LabSite:
    """A lab without web hosts of its own, and a provider that adds them."""

    network: Machines
    provider: LabProvider
    folder: Path

    def namespace(self, name: str) -> Path:
        return NAMESPACES / namespace_of(self.network.id, name)

    def group(self, name: str) -> ControlGroup:
        return ControlGroup(f"{TOP}/{self.network.id}/{name}", find_hierarchies())

    def page(self, name: str, path: str) -> bytes:
        """Return a page that the host ``name`` serves, as a client in the lab sees it."""
        address = MachineFolder(self.folder / name).machine().address
        client = self.network.places["client1"]
        machine = replace(client.machine, addresses4=(address,))
        found = get(replace(client, machine=machine), path)
        return found[1] if found else b""

    def traces(self, name: str) -> list[str]:
        """Return what the host ``name`` has outside its folder."""
        found = [str(self.namespace(name))] if self.namespace(name).exists() else []
        groups = [self.group(part) for part in (name, f"{name}-agent")]
        return found + [str(folder) for group in groups for folder in group.directories() if folder.exists()]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[LabSite]:
    key_file = local_farm(tmp_path).agent.key_file
    with network_of(LabFarm(())) as network:
        web_content.write_content(network.folder / web_content.FOLDER)
        collector = replace(AgentSettings().collectors[0], host=network.machines["dns"].address, port=REPORT_PORT)
        agent = AgentSettings((collector,), "web", key_file, 0.5)
        config = LabConfig(network.id, tmp_path / "servers", workers=3, cpu=0.5, quota=2)
        provider = LabProvider(config, agent, "web")
        yield LabSite(network, provider, config.folder)
        names = [machine.name for machine in await provider.machines()]
        for name in names:
            await provider.delete(name)
        for name in names:
            await until_gone(provider, name)


def receive(sock: socket.socket) -> Report:
    return decode_body(open_envelope(sock.recv(65_536)))


@needs_a_lab
async def test_a_host_serves_pages_reports_and_disappears(site: LabSite) -> None:
    sock = inside(namespace_of(site.network.id, "dns"), lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    with sock:
        sock.bind(("0.0.0.0", REPORT_PORT))
        sock.settimeout(60.0)
        await site.provider.create("web-1", "")
        machine = await until(site.provider, "web-1", RUNNING)
        assert machine.addresses == ("198.19.0.1",)
        await asyncio.to_thread(eventually, lambda: len(site.page("web-1", "/")) == 500, "Apache serves its page")
        status = site.page("web-1", "/server-status?auto").decode()
        assert "ServerMPM: prefork" in status
        report = await asyncio.to_thread(receive, sock)
        assert (report.host, report.pool, report.addresses) == ("web-1", "web", ("198.19.0.1",))
        assert report.metrics["cpu_count"] == 0.5
        await site.provider.stop("web-1")
        while report.kind != "bye":
            report = await asyncio.to_thread(receive, sock)
    await until(site.provider, "web-1", STOPPED)
    assert site.traces("web-1") == []
    await site.provider.start("web-1")
    await until(site.provider, "web-1", RUNNING)
    await asyncio.to_thread(eventually, lambda: len(site.page("web-1", "/")) == 500, "Apache serves its page again")
    await site.provider.delete("web-1")
    await until_gone(site.provider, "web-1")
    assert site.traces("web-1") == []
    assert not list(site.folder.iterdir())


@needs_a_lab
async def test_a_host_that_starts_leaves_the_content_of_running_hosts_alone(site: LabSite) -> None:
    """A CGI program that is being written cannot be executed, so requests to running hosts would fail."""
    program = site.network.folder / web_content.FOLDER / "cgi-bin" / "file"
    before = program.stat().st_mtime_ns
    await site.provider.create("web-1", "")
    await until(site.provider, "web-1", RUNNING)
    await asyncio.to_thread(eventually, lambda: site.page("web-1", "/cgi-bin/file?size=500"), "the program runs")
    assert program.stat().st_mtime_ns == before
    assert [path for path in site.network.folder.rglob("file") if path != program] == []


@needs_a_lab
async def test_apache_runs_under_the_limits_of_its_host(site: LabSite) -> None:
    await site.provider.create("web-1", "")
    await until(site.provider, "web-1", RUNNING)
    group = site.group("web-1")
    eventually(lambda: len(group.pids()) >= 4, "Apache's master and its three workers are in the group")
    assert group.cpu_seconds() > 0

    def is_limited() -> bool:
        # The kernel counts a period when it ends, up to 0.1 s after the process that began it
        counts = parse_flat_keyed((group.cpu_directory / "cpu.stat").read_bytes())
        return bool(site.page("web-1", "/")) and counts[b"nr_periods"] > 0

    await asyncio.to_thread(eventually, is_limited, "the kernel applies the limit")


@needs_a_lab
@pytest.mark.parametrize("then", ["start", "delete"])
async def test_a_killed_supervisor_leaves_nothing_for_long(site: LabSite, then: str) -> None:
    await site.provider.create("web-1", "")
    await until(site.provider, "web-1", RUNNING)
    pid = MachineFolder(site.folder / "web-1").progress().pid
    children = descendants(pid)
    assert len(children) >= 2
    os.kill(pid, signal.SIGKILL)
    await until(site.provider, "web-1", FAILED)
    assert site.namespace("web-1").exists()
    await getattr(site.provider, then)("web-1")
    eventually(lambda: not alive(children), "the old processes have ended")
    if then == "start":
        await until(site.provider, "web-1", RUNNING)
        await asyncio.to_thread(eventually, lambda: len(site.page("web-1", "/")) == 500, "Apache serves its page")
    else:
        await until_gone(site.provider, "web-1")
        assert site.traces("web-1") == []


@needs_a_lab
async def test_two_hosts_reach_each_other(site: LabSite) -> None:
    for name in ("web-1", "web-2"):
        await site.provider.create(name, "")
    for name in ("web-1", "web-2"):
        await until(site.provider, name, RUNNING)
        await asyncio.to_thread(eventually, lambda name=name: site.page(name, "/"), "Apache serves its page")  # type: ignore[misc]


@needs_a_lab
async def test_a_host_joins_the_pool_of_a_lab(tmp_path: Path) -> None:
    farm = LabFarm((WebHost("gandalf", 0.5, workers=2),), joining="web-*")
    with Lab(farm) as lab:
        collector = replace(AgentSettings().collectors[0], host=lab.machines["dns"].address, port=REPORT_PORT)
        agent = AgentSettings((collector,), "web", lab.folder / "dns" / "report.key", 0.5)
        config = LabConfig(lab.id, tmp_path / "servers", workers=2, cpu=0.5)
        provider = LabProvider(config, agent, "web")
        await provider.create("web-1", "")

        def state() -> str:
            return str(lab.members().get("web-1", {}).get("state"))

        await asyncio.to_thread(eventually, lambda: state() == "usable", "the host joins")
        await provider.stop("web-1")
        await asyncio.to_thread(eventually, lambda: state() in ("silent", "None"), "the host leaves")
        await provider.delete("web-1")
        await until_gone(provider, "web-1")


@needs_a_lab
async def test_a_lab_that_does_not_run(tmp_path: Path) -> None:
    agent = local_farm(tmp_path).agent
    provider = LabProvider(LabConfig("000000", tmp_path / "servers"), agent, "web")
    with pytest.raises(ProviderError, match="cannot create web-1: there is no lab 000000"):
        await provider.create("web-1", "")
    assert await provider.machines() == ()


def test_only_root_can_create_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_provider.os, "geteuid", lambda: 1000)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="run lbdns-scaler as root"):
        LabProvider(LabConfig("000000", tmp_path), AgentSettings(), "web")
