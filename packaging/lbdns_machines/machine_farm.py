"""The machines of a run: makes their root file systems, boots them, and always stops them at the end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from lbdns_machines.boot_check import check_boot
from lbdns_machines.control_groups import ControlGroups
from lbdns_machines.host_check import HostError
from lbdns_machines.leftovers import remove_leftovers, remove_temporary_folders
from lbdns_machines.machine import Machine
from lbdns_machines.machine_files import write_machine_files
from lbdns_machines.machine_network import MachineNetwork
from lbdns_machines.machine_plans import MachinePlan
from lbdns_machines.time_limit import TimeLimitReached, time_limit
from lbdns_packaging.source_tree import empty_folder

#: Signals that end a run
INTERRUPTIONS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Seconds on a busy host: to check the host and remove what earlier runs left, to stop the machines, and to remove
#: their files
START_LIMIT: Final = 180.0
STOP_LIMIT: Final = 60.0
FILES_LIMIT: Final = 60.0


class MachineFarm:
    """The machines of ``plans``, which exist during a ``with`` statement. Needs root.

    First, the network namespaces and control groups of killed runs are removed. Raises HostError if the host permits no
    network namespaces or control groups, or cannot boot its own systemd in them. Root file systems are unpacked from
    ``cache`` into ``folder``, and removed at the end; the consoles' logs remain.
    """

    def __init__(
        self,
        plans: Sequence[MachinePlan],
        cache: Path,
        folder: Path,
        check_boot: Callable[[MachineNetwork, ControlGroups, Path], None] = check_boot,
    ) -> None:
        self._plans, self._cache, self._folder, self._check_boot = plans, cache, folder, check_boot
        self._network, self._groups = MachineNetwork(), ControlGroups()
        self.machines: dict[str, Machine] = {}

    def __enter__(self) -> Self:
        try:
            with time_limit(START_LIMIT, "checking the host"):
                self._start()
        except BaseException as error:
            self._remove()
            if isinstance(error, (OSError, subprocess.SubprocessError, TimeLimitReached)):
                raise HostError(str(error)) from None
            raise
        return self

    def _start(self) -> None:
        empty_folder(self._folder)
        for name in (*remove_leftovers(), *remove_temporary_folders()):
            print(f"machines: removed what {name} left, which had been killed", flush=True)
        self._groups.make("none")
        self._network.__enter__()
        self._check_boot(self._network, self._groups, self._folder / "boot-check")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._remove()
        except TimeLimitReached as late:
            if not error:
                raise
            print(f"machines: {late}; the next run removes the rest", file=sys.stderr)

    def _remove(self) -> None:
        """Stop and remove everything, as far as it exists.

        Raises TimeLimitReached if it takes longer than ``STOP_LIMIT`` to stop the machines. If it takes longer than
        ``FILES_LIMIT`` to remove their files, which says nothing about lbdns, a message is printed.
        """
        # A second Ctrl-C must not leave anything behind; this takes a few seconds
        before = {number: signal.signal(number, signal.SIG_IGN) for number in INTERRUPTIONS}
        try:
            with time_limit(STOP_LIMIT, "stopping the machines"):
                for machine in self.machines.values():
                    machine.kill()
                self._groups.remove()
                self._network.remove()
            self._remove_files()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _remove_files(self) -> None:
        roots = self._folder / "roots"
        try:
            subprocess.run(["rm", "-rf", "--one-file-system", roots], check=False, timeout=FILES_LIMIT)
        except subprocess.TimeoutExpired:
            print(f"machines: files remain in {roots}; the next run removes them", file=sys.stderr)

    def __getitem__(self, name: str) -> Machine:
        return self.machines[name]

    @property
    def web_servers(self) -> list[Machine]:
        """The machines that run a web server, in the order of the plans."""
        return [machine for machine in self.machines.values() if machine.plan.is_web_server]

    def unpack(self) -> None:
        """Unpack and write the root file systems of all machines."""
        key = self._ssh_key()
        for plan in self._plans:
            root = plan.root.unpack(self._cache, self._folder / "roots" / plan.name)
            write_machine_files(root, plan, key)
            self._add(plan, root)

    def boot(self) -> str:
        """Boot all machines, and return their names."""
        for machine in self.machines.values():
            machine.start()
        return ", ".join(self.machines)

    def clone(self, original: Machine, plan: MachinePlan) -> Machine:
        """Copy the files of ``original``, which must be off, to a new machine with the name and address in ``plan``;
        return it."""
        root = self._folder / "roots" / plan.name
        subprocess.run(["cp", "--archive", "--reflink=auto", original.root, root], check=True)
        write_machine_files(root, plan, self._ssh_key())
        return self._add(plan, root)

    def _add(self, plan: MachinePlan, root: Path) -> Machine:
        machine = Machine(plan, root, self._network, self._groups, self._folder / f"{plan.name}.log")
        self.machines[plan.name] = machine
        return machine

    def _ssh_key(self) -> Path:
        key = self._folder / "id_ed25519"
        if not key.exists():
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lbdns machines", "-f", str(key)]
            subprocess.run(command, check=True)
        return key
