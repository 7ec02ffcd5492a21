"""One run: prepares the machines, follows the tutorial, and removes the packages; every step is in the report."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from lbdns_machines.command_blocks import command_blocks
from lbdns_machines.farm_steps import await_usable, check_removal
from lbdns_machines.host_check import HostError
from lbdns_machines.machine import Machine, MachineError
from lbdns_machines.machine_farm import MachineFarm
from lbdns_machines.machine_plans import NAME_SERVERS, MachinePlan, server_package
from lbdns_machines.step_report import StepReport
from lbdns_machines.tutorial_steps import commands_on_machines, step_name
from lbdns_packaging.root_file_systems import MirrorError, PackagingError, RootFileSystem
from lbdns_packaging.source_tree import ROOT, version

TUTORIAL: Final = ROOT / "docs" / "tutorial" / "getting-started.md"
#: Exceptions that mean that a step failed
FAILURES: Final = (MachineError, PackagingError, subprocess.SubprocessError, OSError, ValueError, KeyError)


@dataclass
class MachineRun:
    """A run on the machines of ``farm``, with packages from the folder ``packages``."""

    farm: MachineFarm
    packages: Path
    report: StepReport
    printed: list[str] = field(default_factory=list)  # by the tutorial's commands

    def boot(self, plans: Sequence[MachinePlan], cache: Path) -> None:
        """Make, unpack and boot the machines.

        Raises HostError if Debian's mirror cannot be reached. Raises RunAbortedError if mmdebstrap fails otherwise, or
        if a machine does not boot: since the host can boot its own systemd, the machine's files are wrong.
        """
        for root in dict.fromkeys(plan.root for plan in plans):
            make_archive(self.report, root, cache)
        self.report.run("unpack the root file systems", self.farm.unpack, essential=True)
        self.report.run("boot all machines", self.farm.boot, essential=True)

    def follow_tutorial(self) -> None:
        """Put the packages onto the machines, and run each command block of the tutorial.

        Raises RunAbortedError at the first failure, because each block depends on the earlier blocks.
        """
        self.report.run("copy the packages to the machines", self._copy_packages, essential=True)
        for block in command_blocks(TUTORIAL.read_text()):
            for machine, commands in commands_on_machines(block, self.farm):
                self.report.run(step_name(machine, commands), partial(self._run, machine, commands), essential=True)
        self.report.run("all web servers are usable", partial(await_usable, self.farm), essential=True)

    def remove(self) -> None:
        """Check that a purge of each package leaves nothing behind."""
        name_servers: list[str] = [name for name in NAME_SERVERS if name in self.farm.machines]
        web_servers = [machine.name for machine in self.farm.web_servers]
        for package, names in (("lbdns", name_servers), ("lbdns-agent", web_servers)):
            if names:
                self.report.run(f"purge {package}", partial(check_removal, self.farm, package, names))

    def server_package(self, machine: Machine) -> Path:
        """Return the path of the server's package that was built for ``machine``. Raises PackagingError if it is
        missing."""
        return self._package(server_package(machine.plan, version()))

    def _copy_packages(self) -> str:
        ns = self.farm["ns"]
        files = {ns: self.server_package(ns)}
        files |= {machine: self._package(f"lbdns-agent_{version()}-1_all.deb") for machine in self.farm.web_servers}
        for machine, path in files.items():
            shutil.copy(path, machine.root / "root")
        return ", ".join(sorted({path.name for path in files.values()}))

    def _package(self, name: str) -> Path:
        path = self.packages / name
        if not path.exists():
            raise PackagingError(f"{path} not found: run 'make packages' as root")
        return path

    def _run(self, machine: Machine, commands: str) -> None:
        self.printed.append(machine.run(commands))


def make_archive(report: StepReport, root: RootFileSystem, cache: Path) -> None:
    """Make the archive of ``root`` in ``cache`` if it is missing; this is an essential step of ``report``. Raises
    HostError if Debian's mirror cannot be reached."""

    def make() -> str:
        try:
            return root.archive(cache).name
        except MirrorError as error:
            raise HostError(str(error)) from None

    report.run(f"root file system of {root.release}", make, essential=True)
