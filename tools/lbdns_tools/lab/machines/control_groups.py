"""Manages the lab's control groups (version 1 or 2): creation, limits, processes, measurements and removal.

With version 1, each controller may be mounted separately, and a control group has the same path in every hierarchy.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_agent.cgroup.cgroup_controllers import parse_flat_keyed
from lbdns_agent.cgroup.cgroup_mounts import UNIFIED, CgroupMount, read_cgroup_mounts
from lbdns_shared.errors import LbdnsError

#: The parent of all labs' groups; a lab's groups are below TOP/ID
TOP: Final = "lbdns-lab"
KILL_S: Final = 10.0  # s until killed processes must be gone; a process that waits for a disk ends late
_REMOVE_S: Final = 2.0  # s; a group stays busy for a moment after its last process has ended
_STEP_S: Final = 0.005  # polling interval
_LEAST_US: Final = 1000  # minimum quota and minimum period; the longest period is one second (sched-bwc.rst)
_LONGEST_US: Final = 1_000_000
_TRIES: Final = 5  # attempts to make a group while another lab removes the shared parent, which looks unused


@dataclass(frozen=True, slots=True)
class CgroupHierarchy:
    """The mount point of a controller. ``unified`` is True for cgroup version 2."""

    point: Path
    unified: bool


@dataclass(frozen=True, slots=True)
class CgroupHierarchies:
    """The hierarchies of the controllers for CPU limits, CPU time and memory.

    ``memory`` is None if the memory controller is unavailable.
    """

    cpu: CgroupHierarchy
    times: CgroupHierarchy
    memory: CgroupHierarchy | None

    def all(self) -> list[CgroupHierarchy]:
        """Return the hierarchies without duplicates. Version 2 has a single hierarchy, but version 1 often has two."""
        return list(dict.fromkeys(found for found in (self.cpu, self.times, self.memory) if found))


def find_hierarchies(mounts: Sequence[CgroupMount] | None = None) -> CgroupHierarchies:
    """Return the control group hierarchies in ``mounts`` (default: this machine's mounts).

    Raises LbdnsError if the cpu or cpuacct controller is missing.
    """
    if mounts is None:
        mounts = read_cgroup_mounts()
    cpu, times = _find("cpu", mounts), _find("cpuacct", mounts)
    if cpu is None or times is None:
        missing = "cpu" if cpu is None else "cpuacct"
        raise LbdnsError(
            f"the control group controller {missing} is not available: mount cgroup2 on /sys/fs/cgroup, or start the"
            " container with writable control groups (docker run --privileged --cgroupns=private)"
        )
    return CgroupHierarchies(cpu, times, _find("memory", mounts))


def _find(controller: str, mounts: Sequence[CgroupMount]) -> CgroupHierarchy | None:
    """Return a controller's hierarchy. In version 2, CPU time is counted without a cpuacct controller
    (cgroup-v2.rst)."""
    for mount in mounts:
        if controller in mount.controllers:
            return CgroupHierarchy(mount.point, unified=False)
    wanted = "cpu" if controller == "cpuacct" else controller
    for mount in mounts:
        if UNIFIED in mount.controllers and wanted in _words(mount.point / "cgroup.controllers"):
            return CgroupHierarchy(mount.point, unified=True)
    return None


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A control group. ``name`` is the group's path below the mount points."""

    name: str
    hierarchies: CgroupHierarchies

    @property
    def cpu_directory(self) -> Path:
        """The directory that contains the group's CPU limit. The agent's option --cgroup accepts this path."""
        return self.hierarchies.cpu.point / self.name

    def directories(self) -> list[Path]:
        return [hierarchy.point / self.name for hierarchy in self.hierarchies.all()]

    def command(self, *argv: str) -> tuple[str, ...]:
        """Return a command that enters the group and then executes ``argv``. The command fails if the group cannot be
        entered."""
        moves = " && ".join(f"echo $$ > {shlex.quote(str(at / 'cgroup.procs'))}" for at in self.directories())
        return "sh", "-c", f'{moves} && exec "$@"', "sh", *argv

    def limit_cpu(self, cores: float, period_s: float) -> None:
        """Limit the group to ``cores`` cores, averaged over each period of ``period_s`` seconds. Raises LbdnsError."""
        period = round(period_s * 1e6)
        quota = round(cores * period)
        if not _LEAST_US <= period <= _LONGEST_US or quota < _LEAST_US:
            raise LbdnsError(
                f"{self.name}: cannot limit CPU to {cores:g} cores in periods of {period_s:g} s: the kernel requires"
                f" periods from 0.001 to 1 s and at least 0.001 s of CPU time per period"
            )
        if self.hierarchies.cpu.unified:
            _write(self.cpu_directory / "cpu.max", f"{quota} {period}")
        else:
            _write(self.cpu_directory / "cpu.cfs_period_us", str(period))
            _write(self.cpu_directory / "cpu.cfs_quota_us", str(quota))

    def limit_memory(self, size: int) -> None:
        """Limit memory to ``size`` bytes. If the group exceeds the limit, the kernel kills processes instead of
        swapping memory. Raises LbdnsError."""
        memory = self.hierarchies.memory
        if memory is None:
            raise LbdnsError(f"{self.name}: cannot limit memory: this machine has no memory controller")
        directory = memory.point / self.name
        version_1 = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        limit, swap = ("memory.max", "memory.swap.max") if memory.unified else version_1
        _write(directory / limit, str(size))
        if (directory / swap).exists():  # a kernel may be built without swap accounting
            # Version 2 limits swap alone; version 1 limits memory and swap together
            _write(directory / swap, "0" if memory.unified else str(size))

    def favour(self) -> None:
        """Give the group and its parents CPU priority over all other processes on the machine. Raises LbdnsError."""
        # By default, a group, however large, receives no more CPU time than a single process beside the group. A weight
        # applies within the parent group only, so the parents need it too
        name, weight = ("cpu.weight", 10_000) if self.hierarchies.cpu.unified else ("cpu.shares", 2**18)
        directory = self.hierarchies.cpu.point
        for part in Path(self.name).parts:
            directory /= part
            _write(directory / name, str(weight))

    def cpu_seconds(self) -> float:
        """Return the total CPU time of the group and its children, in seconds. Raises OSError, ValueError or
        KeyError."""
        directory = self.hierarchies.times.point / self.name
        if self.hierarchies.times.unified:
            return parse_flat_keyed((directory / "cpu.stat").read_bytes())[b"usage_usec"] / 1e6
        return int((directory / "cpuacct.usage").read_bytes()) / 1e9

    def memory_bytes(self) -> int | None:
        """Return the memory use in bytes without the page cache, or None if there is no memory controller. Raises
        OSError, ValueError."""
        memory = self.hierarchies.memory
        if memory is None:
            return None
        directory = memory.point / self.name
        stat = parse_flat_keyed((directory / "memory.stat").read_bytes())
        used = int((directory / ("memory.current" if memory.unified else "memory.usage_in_bytes")).read_bytes())
        before = b"" if memory.unified else b"total_"
        return max(0, used - sum(stat.get(before + kind, 0) for kind in (b"inactive_file", b"active_file")))

    def pids(self) -> set[int]:
        """Return the process IDs in the group and its children in all hierarchies. If the group does not exist, the
        result is empty."""
        found: set[int] = set()
        for directory in self.directories():
            for folder in _tree(directory):
                with contextlib.suppress(OSError):  # removed in the meantime (ENOENT, ENODEV)
                    found.update(map(int, (folder / "cgroup.procs").read_bytes().split()))
        # 0 stands for a process in an invisible PID namespace; kill(0) would signal our own process group
        return found - {0}

    def kill(self) -> None:
        """Kill all processes in the group and its children, and wait until they have exited. Raises LbdnsError."""

        def is_empty() -> bool:
            # Read again each time: a process may have forked just before it was killed
            left = self.pids()
            if os.getpid() in left:
                raise LbdnsError(
                    f"{self.name}: this process ({os.getpid()}) is in the group; run the command outside the lab"
                )
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not left

        if not _within(KILL_S, is_empty):
            left = ", ".join(map(str, sorted(self.pids())))
            raise LbdnsError(f"{self.name}: processes {left} did not exit within {KILL_S:g} s after SIGKILL")

    def remove(self) -> bool:
        """Remove the group, its children and its empty parents, and return whether it existed.

        The group must not contain any processes. Raises LbdnsError.
        """
        found = [directory for directory in self.directories() if directory.is_dir()]
        for directory in found:
            for folder in reversed(_tree(directory)):
                _remove_directory(folder)
        for hierarchy in self.hierarchies.all():
            for parent in list(Path(self.name).parents)[:-1]:
                with contextlib.suppress(OSError):
                    (hierarchy.point / parent).rmdir()
        return bool(found)


def make_group(name: str, hierarchies: CgroupHierarchies | None = None) -> ControlGroup:
    """Create a control group and any missing parent groups. Raises LbdnsError."""
    group = ControlGroup(name, hierarchies or find_hierarchies())
    try:
        for hierarchy in group.hierarchies.all():
            _make(hierarchy, name)
    except LbdnsError:
        with contextlib.suppress(LbdnsError):
            group.remove()
        raise
    return group


def _make(hierarchy: CgroupHierarchy, name: str) -> None:
    for last in (*[False] * (_TRIES - 1), True):
        try:
            directory = hierarchy.point
            for part in Path(name).parts:
                if hierarchy.unified:
                    _enable_controllers(directory)
                directory /= part
                directory.mkdir(exist_ok=True)
            return
        except FileNotFoundError:
            if last:
                raise LbdnsError(f"{directory}: another process keeps removing the parent control group") from None
        except OSError as error:
            raise LbdnsError(f"{directory}: cannot create the control group: {_why(error)}") from None


def _enable_controllers(directory: Path) -> None:
    """Enable the controllers of a version 2 group for its child groups ("Top-down Constraint" in cgroup-v2.rst)."""
    file = directory / "cgroup.subtree_control"
    wanted = {"cpu", "memory"} & _words(directory / "cgroup.controllers") - _words(file)
    if not wanted:
        return
    try:
        file.write_text(" ".join(f"+{controller}" for controller in sorted(wanted)))
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        # EBUSY: "No Internal Process Constraint", which exempts only the true root; a container doesn't see that root
        is_inside = str(os.getpid()) in _words(directory / "cgroup.procs")
        in_the_way = f" (including this process, {os.getpid()})" if is_inside else ""
        raise LbdnsError(
            f"{file}: cannot enable {', '.join(sorted(wanted))}: {_why(error)}. A control group that contains "
            f"processes{in_the_way} cannot limit its child groups. Move the processes in "
            f"{directory / 'cgroup.procs'} to a child group, such as {directory / 'init'}, and try again"
        ) from None


def _words(file: Path) -> set[str]:
    with contextlib.suppress(OSError):
        return set(file.read_text().split())
    return set()


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        raise LbdnsError(f"{file}: cannot write {text}: {_why(error)}") from None


def _why(error: OSError) -> str:
    if isinstance(error, PermissionError) and os.geteuid() != 0:
        return "permission denied; run the lab as root"
    return error.strerror or str(error)


def _tree(directory: Path) -> list[Path]:
    """Return a directory and all subdirectories, parents first. If the directory does not exist, return []."""
    return [Path(folder) for folder, _, _ in os.walk(directory)]


def _remove_directory(directory: Path) -> None:
    def is_gone() -> bool:
        with contextlib.suppress(OSError):
            directory.rmdir()
        return not directory.exists()

    if not _within(_REMOVE_S, is_gone):
        raise LbdnsError(
            f"{directory}: cannot remove the control group: the group or a child group still has processes"
        )


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(_STEP_S)
    return True
