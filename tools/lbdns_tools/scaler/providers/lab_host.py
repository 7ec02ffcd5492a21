"""A web host in a lab's network: its network namespace, its control groups, and the commands that run on it."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from lbdns_tools.apache_process import ApacheSetup
from lbdns_tools.lab.farm.lab_farm import NETWORK4, NETWORK6, ZONE, LabFarm, LabMachine, machines
from lbdns_tools.lab.machines import network_namespaces
from lbdns_tools.lab.machines.control_groups import TOP, ControlGroup, find_hierarchies, make_group
from lbdns_tools.lab.machines.leftover_cleanup import LabTraces
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.programs import web_content
from lbdns_tools.lab.programs.web_host_programs import ALARMS, STATUS_PAGE
from lbdns_tools.scaler.providers.loopback_host import LoopbackHost, agent_command
from lbdns_tools.scaler.providers.machine_folder import LocalMachine

_CPU_PERIOD: Final = 0.1  # s; as in the lab


class LabHost(LoopbackHost):
    """The commands that run on a web host of a lab: Apache under the host's limits, and the agent without limits."""

    def __init__(self, machine: LocalMachine, place: PlacedMachine, agent_group: ControlGroup) -> None:
        super().__init__(machine)
        self._place, self._agent_group = place, agent_group

    def web_server(self) -> Sequence[str]:
        machine, folder = self._machine, LabTraces(self._machine.lab, None).folder
        name = f"{machine.name}.{ZONE}"
        content = folder / web_content.FOLDER  # never written here: a program that is being written cannot be executed
        httpd = ApacheSetup(folder / machine.name, content, str(machine.port), name, workers=machine.workers)
        httpd.pid_file.unlink(missing_ok=True)
        return self._place.command(*httpd.command())

    def agent(self, key_file: Path) -> Sequence[str]:
        options = {
            "server-status": f"http://{self._machine.address}:{self._machine.port}{STATUS_PAGE}",
            "gateway": _hub().address,
            "cgroup": str(self._place.group.cpu_directory),
        }
        alarms = [word for condition in ALARMS for word in ("--alarm", condition)]
        command = [*agent_command(self._machine, key_file, options), *alarms]
        return self._place.command(*command, group=self._agent_group)


@contextlib.contextmanager
def lab_host(machine: LocalMachine) -> Iterator[LabHost]:
    """Add a web host to a lab for the duration of the context. Raises LbdnsError."""
    remove_lab_host(machine)  # what a supervisor that was killed has left
    offset = int(ipaddress.IPv4Address(machine.address)) - int(NETWORK4.network_address)
    lab_machine = LabMachine(machine.name, "web", (machine.address,), str(NETWORK6[offset]))
    try:
        network_namespaces.add(machine.lab, lab_machine, _hub())
        group, agent_group = (make_group(name) for name in _group_names(machine))
        group.limit_cpu(machine.cpu, _CPU_PERIOD)
        if machine.memory:
            group.limit_memory(machine.memory)
        namespace = network_namespaces.namespace_of(machine.lab, machine.name)
        yield LabHost(machine, PlacedMachine(lab_machine, namespace, group), agent_group)
    finally:
        remove_lab_host(machine)


def remove_lab_host(machine: LocalMachine) -> None:
    """Kill the processes of a web host, and remove its control groups and its network namespace. Raises LbdnsError."""
    hierarchies = find_hierarchies()
    for name in _group_names(machine):
        group = ControlGroup(name, hierarchies)
        group.kill()
        group.remove()
    network_namespaces.remove_machine(machine.lab, machine.name)


def _group_names(machine: LocalMachine) -> tuple[str, str]:
    return f"{TOP}/{machine.lab}/{machine.name}", f"{TOP}/{machine.lab}/{machine.name}-agent"


def _hub() -> LabMachine:
    return machines(LabFarm(()))[0]
