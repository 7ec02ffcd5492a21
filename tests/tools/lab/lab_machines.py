"""Builds lab machines for tests, with networks, control groups and a folder but no programs, and removes them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lbdns_tools.lab.farm.lab_farm import LabFarm, LabMachine, machines
from lbdns_tools.lab.machines import network_namespaces
from lbdns_tools.lab.machines.control_groups import make_group
from lbdns_tools.lab.machines.leftover_cleanup import new_id, record
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.programs.lab_programs import LabPrograms
from tests.needs import needs

#: What a test needs that uses this
NEEDED = ("ip", "nsenter", "unshare")
needs_a_lab = needs(programs=(*NEEDED, "apache2"), root=True, namespaces=True, cpu_groups=True)


@dataclass(frozen=True)
class Machines:
    """A lab's machines. All users can read ``folder``."""

    farm: LabFarm
    machines: dict[str, LabMachine]
    places: dict[str, PlacedMachine]
    programs: LabPrograms
    folder: Path
    id: str

    def run(self, machine: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command on a machine and wait for it to exit."""
        return subprocess.run(
            self.places[machine].command(*command), capture_output=True, text=True, check=False, timeout=60
        )

    @property
    def webs(self) -> list[LabMachine]:
        return [self.machines[host.name] for host in self.farm.hosts]


@contextlib.contextmanager
def network_of(farm: LabFarm) -> Iterator[Machines]:
    """Build the machines of a farm, with the CPU limits of its web hosts, and remove the machines on exit."""
    id = new_id()
    traces = record(id)
    try:
        every = machines(farm)
        network_namespaces.build(id, every)
        places = {
            machine.name: PlacedMachine(
                machine, network_namespaces.namespace_of(id, machine.name), make_group(f"lbdns-lab/{id}/{machine.name}")
            )
            for machine in every
        }
        for host in farm.hosts:
            places[host.name].group.limit_cpu(host.cpu, farm.cpu_period)
        logs = traces.folder / "logs"
        logs.mkdir()
        with LabPrograms(logs) as programs:
            yield Machines(farm, {machine.name: machine for machine in every}, places, programs, traces.folder, id)
    finally:
        traces.remove()
