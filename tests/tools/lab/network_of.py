"""Machines of a lab for a test: their networks, groups and folder, always removed. Nothing runs on them yet."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lbdns_tools.lab import network
from lbdns_tools.lab.addresses import Machine, machines
from lbdns_tools.lab.farm import Farm
from lbdns_tools.lab.groups import make_group
from lbdns_tools.lab.place import Place
from lbdns_tools.lab.programs import Programs
from lbdns_tools.lab.traces_left import new_id, record
from tests.needs import needs

#: What a test needs that uses this
NEEDED = ("ip", "nsenter", "unshare")
needs_a_lab = needs(programs=(*NEEDED, "apache2"), root=True, namespaces=True, cpu_groups=True)


@dataclass(frozen=True)
class Machines:
    """``folder`` can be read by every user."""

    farm: Farm
    machines: dict[str, Machine]
    places: dict[str, Place]
    programs: Programs
    folder: Path
    id: str

    def run(self, machine: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command on a machine, to its end."""
        return subprocess.run(
            self.places[machine].command(*command), capture_output=True, text=True, check=False, timeout=60
        )

    @property
    def webs(self) -> list[Machine]:
        return [self.machines[host.name] for host in self.farm.hosts]


@contextlib.contextmanager
def network_of(farm: Farm) -> Iterator[Machines]:
    """The machines of a farm, its web hosts with their CPU limited."""
    id = new_id()
    traces = record(id)
    try:
        every = machines(farm)
        network.build(id, every)
        places = {
            machine.name: Place(
                machine, network.namespace_of(id, machine.name), make_group(f"lbdns-lab/{id}/{machine.name}")
            )
            for machine in every
        }
        for host in farm.hosts:
            places[host.name].group.limit_cpu(host.cpu, farm.cpu_period)
        logs = traces.folder / "logs"
        logs.mkdir()
        with Programs(logs) as programs:
            yield Machines(farm, {machine.name: machine for machine in every}, places, programs, traces.folder, id)
    finally:
        traces.remove()
