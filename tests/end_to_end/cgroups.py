"""Control groups with a CPU quota, for tests (version 1, cpu and cpuacct controllers); they are always removed."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.end_to_end.process import eventually

CONTROLLERS: Final = ("cpu", "cpuacct")
PERIOD: Final = 100_000  # microseconds, the kernel's default
#: What the tests that run beside this one do must not keep a group from using its quota
MOST_SHARES: Final = 2**18
_numbers = itertools.count()


@dataclass(frozen=True)
class Slice:
    """One control group, with the same path in the hierarchy of each controller."""

    path: str

    def directories(self) -> list[Path]:
        return [Path("/sys/fs/cgroup", controller, self.path) for controller in CONTROLLERS]

    def enter(self, *command: str) -> tuple[str, ...]:
        """Return a command that runs ``command`` inside the control group from the start."""
        moves = "".join(f"echo $$ > {directory}/cgroup.procs; " for directory in self.directories())
        return "sh", "-c", f'{moves}exec "$@"', "sh", *command

    def pids(self) -> set[int]:
        return {int(pid) for d in self.directories() for pid in (d / "cgroup.procs").read_text().split()}


@contextlib.contextmanager
def slices(names: Sequence[str], cores: float) -> Iterator[dict[str, Slice]]:
    """Create a control group with a quota of ``cores`` CPUs for each name. Kills the remaining processes at the end."""
    top = f"lbdns-test-{os.getpid()}-{next(_numbers)}"
    found = {name: Slice(f"{top}/{name}") for name in names}
    try:
        for group in found.values():
            for directory in group.directories():
                directory.mkdir(parents=True)
            directory = Path("/sys/fs/cgroup/cpu", group.path)
            (directory / "cpu.cfs_period_us").write_text(str(PERIOD))
            (directory / "cpu.cfs_quota_us").write_text(str(int(cores * PERIOD)))
        Path("/sys/fs/cgroup/cpu", top, "cpu.shares").write_text(str(MOST_SHARES))
        yield found
    finally:
        for group in found.values():
            _empty(group)
            for directory in group.directories():
                directory.rmdir()
        for controller in CONTROLLERS:
            Path("/sys/fs/cgroup", controller, top).rmdir()


def _empty(group: Slice) -> None:
    def nobody_left() -> bool:
        left = group.pids()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    eventually(nobody_left, f"the processes of {group.path} are gone")
