"""A machine: a root file system that systemd-nspawn boots, with systemd inside, connected to the bridge."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from lbdns_machines.control_groups import ControlGroups
from lbdns_machines.machine_network import BRIDGE, MachineNetwork
from lbdns_machines.machine_plans import MachinePlan

REBOOT: Final = 133  # the exit status with which systemd-nspawn asks to be started again
BOOT_LIMIT: Final = 120.0  # seconds; a machine boots in 1 to 3 s on an idle host
COMMAND_LIMIT: Final = 180.0  # seconds
_GRACE: Final = 10.0  # seconds for systemd-nspawn to notice the end of its machine
_PAUSE: Final = 0.1  # seconds between two looks at what is awaited
_LINES: Final = 30  # of the console that an error message shows
_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENVIRONMENT: Final = (_PATH, "HOME=/root", "LANG=C.UTF-8", "TERM=dumb", "DEBIAN_FRONTEND=noninteractive")


class MachineError(Exception):
    """A machine did not do what it should; the message contains what it printed."""


class Machine:
    """The machine of ``plan``, whose root file system is the folder ``root``; the console is logged to ``log``."""

    def __init__(
        self, plan: MachinePlan, root: Path, network: MachineNetwork, groups: ControlGroups, log: Path
    ) -> None:
        self.plan, self.root, self.log = plan, root, log
        self._network, self._groups = network, groups
        self._nspawn: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def address(self) -> str:
        return self.plan.address

    def start(self) -> None:
        """Boot the machine, and wait until systemd has started everything. Raises MachineError after a time limit."""
        command = nspawn_command(self.name, self.root, self._network.path, self._groups.make(self.name))
        with self.log.open("ab") as log:
            # A session of its own, so that Ctrl-C interrupts this program alone, which then ends the machines
            self._nspawn = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.wait(self._is_up, BOOT_LIMIT, "the end of the boot")

    def run(self, command: str, *, limit: float = COMMAND_LIMIT, check: bool = True) -> str:
        """Run shell commands as root, in root's home; return what they print to standard output and standard error.

        If a command fails, the later commands do not run. Raises MachineError if a command fails (unless ``check`` is
        False), or takes longer than ``limit`` seconds.
        """
        status, output = self._execute(["sh", "-euc", f"cd\n{command}"], limit)
        if status and check:
            raise MachineError(f"{self.name}: exit status {status} from:\n{command.rstrip()}\n{output.rstrip()}")
        return output

    def inside(self, command: Sequence[str]) -> list[str]:
        """Return a command line that runs ``command``, a program on the host, in the machine's network namespace."""
        return ["nsenter", f"--target={self._leader()}", "--net", "--", *command]

    def wait(self, condition: Callable[[], bool], limit: float, what: str) -> float:
        """Wait until ``condition`` returns true; return how many seconds it took. Raises MachineError after ``limit``
        seconds."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > limit:
                raise MachineError(f"{self.name}: waited {limit:.0f} s for {what}\n{self._end_of_log()}")
            time.sleep(_PAUSE)
        return time.monotonic() - began

    def reboot(self) -> None:
        """Reboot the machine from inside, and wait until it is up again."""
        assert self._nspawn, "the machine runs"
        self._execute(["systemctl", "reboot"], COMMAND_LIMIT)
        self._await_end()
        if self._nspawn.returncode != REBOOT:
            raise MachineError(f"{self.name}: ended with status {self._nspawn.returncode}\n{self._end_of_log()}")
        self.start()

    def power_off(self) -> None:
        """Shut the machine down from inside, and wait until it is off."""
        self._execute(["systemctl", "poweroff"], COMMAND_LIMIT)
        self._await_end()

    def kill(self) -> None:
        """End the machine at once. May be called at any time."""
        if not self._nspawn or self._nspawn.poll() is not None:
            return
        # With systemd, the kernel ends every process of the machine. The end of systemd-nspawn alone would end none.
        for child in self._children():
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            self._nspawn.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._nspawn.kill()
            self._nspawn.wait()

    def _await_end(self) -> None:
        assert self._nspawn, "the machine runs"
        with suppress(subprocess.TimeoutExpired):
            self._nspawn.wait(BOOT_LIMIT)
            return
        raise MachineError(f"{self.name}: did not go down within {BOOT_LIMIT:.0f} s\n{self._end_of_log()}")

    def _is_up(self) -> bool:
        assert self._nspawn, "the machine has been started"
        if self._nspawn.poll() is not None:
            raise MachineError(
                f"{self.name}: systemd-nspawn ended with status {self._nspawn.returncode}\n{self._end_of_log()}"
            )
        if not self._leader():
            return False
        _, output = self._execute(["systemctl", "is-system-running"], COMMAND_LIMIT)
        return output.strip() in ("running", "degraded")

    def _leader(self) -> int:
        """Return the process ID of the machine's systemd, or 0 if it is not running."""
        with suppress(OSError):
            for child in self._children():
                if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                    return child
        return 0

    def _children(self) -> list[int]:
        """Return the process IDs of the children of systemd-nspawn."""
        assert self._nspawn, "the machine has been started"
        pid = self._nspawn.pid
        with suppress(OSError):
            return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return []

    def _execute(self, command: Sequence[str], limit: float) -> tuple[int, str]:
        leader = self._leader()
        if not leader:
            raise MachineError(f"machine {self.name} is not running\n{self._end_of_log()}")
        enter = ["nsenter", f"--target={leader}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--"]
        # A file, since a program that goes on in the background would keep a pipe open
        with tempfile.TemporaryFile() as output:
            try:
                result = subprocess.run(
                    [*enter, "env", "-i", *_ENVIRONMENT, *command],
                    check=False, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", timeout=limit,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                output.seek(0)
                printed = output.read().decode(errors="replace")
                raise MachineError(
                    f"{self.name}: takes longer than {limit:.0f} s: {shlex.join(command)}\n{printed}"
                ) from None
            output.seek(0)
            return result.returncode, output.read().decode(errors="replace")

    def _end_of_log(self) -> str:
        with suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LINES:])
        return ""


def nspawn_command(
    name: str, root: Path, network: str, groups: Sequence[Path], options: Sequence[str] = ()
) -> list[str]:
    """Return the command that boots ``root`` as machine ``name`` in the namespace ``network``, in control ``groups``.

    ``options`` are further options of systemd-nspawn.
    If this process dies, the kernel sends SIGTERM to systemd-nspawn, which then shuts the machine down.
    """
    join = "; ".join(f"echo $$ > {shlex.quote(str(group))}" for group in groups)
    return [
        "sh", "-euc", f'{join}; exec "$@"', "sh",
        "nsenter", f"--net={network}", "--", "setpriv", "--pdeathsig", "TERM", "--",
        "systemd-nspawn", "--register=no", "--keep-unit", "--boot", "--timezone=off", "--resolv-conf=off",
        "--console=read-only", f"--network-bridge={BRIDGE}", f"--machine={name}", f"--directory={root}",
        *options,
    ]  # fmt: skip
