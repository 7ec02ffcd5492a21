"""Control groups of the lab, version 1 and 2: made, limited, entered, read, emptied, removed.

Version 1 may have each controller mounted apart; a group is then a directory of the same path in each of them.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.errors import LbdnsError
from lbdns_agent.cgroup.files import keyed
from lbdns_agent.cgroup.mounts import UNIFIED, Mount, read_mounts

#: All groups of all labs are below it, each lab's below TOP/ID
TOP: Final = "lbdns-lab"
KILL_S: Final = 10.0  # until everybody killed is gone: a process that waits for a disk ends late
_REMOVE_S: Final = 2.0  # a group stays busy for a moment after its last process has ended
_STEP_S: Final = 0.005  # between two looks
_LEAST_US: Final = 1000  # of a quota, and of a period (sched-bwc.rst); a period has at most a second
_LONGEST_US: Final = 1_000_000
_TRIES: Final = 5  # of making a group while another lab removes the parent it shares, because it seemed unused


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where a controller is mounted, and whether in version 2."""

    point: Path
    unified: bool


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """The controllers that the lab uses: of CPU limits, of CPU times, of memory (None if it can't be had)."""

    cpu: Hierarchy
    times: Hierarchy
    memory: Hierarchy | None

    def all(self) -> list[Hierarchy]:
        """Each once: version 2 has all in one, version 1 often two."""
        return list(dict.fromkeys(found for found in (self.cpu, self.times, self.memory) if found))


def find_hierarchies(mounts: Sequence[Mount] | None = None) -> Hierarchies:
    """Those of this machine, or by ``mounts``. Raises LbdnsError if CPU time can't be limited or counted."""
    if mounts is None:
        mounts = read_mounts()
    cpu, times = _find("cpu", mounts), _find("cpuacct", mounts)
    if cpu is None or times is None:
        missing = "cpu" if cpu is None else "cpuacct"
        raise LbdnsError(
            f"the control group controller {missing} can't be had: mount cgroup2 on /sys/fs/cgroup, and in a container"
            " allow it control groups that it can write (docker run --privileged --cgroupns=private)"
        )
    return Hierarchies(cpu, times, _find("memory", mounts))


def _find(controller: str, mounts: Sequence[Mount]) -> Hierarchy | None:
    """A controller is either in version 1 or in version 2, which counts CPU time without any (cgroup-v2.rst)."""
    for mount in mounts:
        if controller in mount.controllers:
            return Hierarchy(mount.point, unified=False)
    wanted = "cpu" if controller == "cpuacct" else controller
    for mount in mounts:
        if UNIFIED in mount.controllers and wanted in _words(mount.point / "cgroup.controllers"):
            return Hierarchy(mount.point, unified=True)
    return None


@dataclass(frozen=True, slots=True)
class Group:
    """One control group; ``name`` is its path below the mount points."""

    name: str
    hierarchies: Hierarchies

    @property
    def cpu_directory(self) -> Path:
        """Where its CPU is limited: what an agent's --cgroup takes."""
        return self.hierarchies.cpu.point / self.name

    def directories(self) -> list[Path]:
        return [hierarchy.point / self.name for hierarchy in self.hierarchies.all()]

    def command(self, *argv: str) -> tuple[str, ...]:
        """A command that runs ``argv`` inside from its first instruction on, or not at all. The process stays one."""
        moves = " && ".join(f"echo $$ > {shlex.quote(str(at / 'cgroup.procs'))}" for at in self.directories())
        return "sh", "-c", f'{moves} && exec "$@"', "sh", *argv

    def limit_cpu(self, cores: float, period_s: float) -> None:
        """So many cores, a part of one most often, in every period. Raises LbdnsError."""
        period = round(period_s * 1e6)
        quota = round(cores * period)
        if not _LEAST_US <= period <= _LONGEST_US or quota < _LEAST_US:
            raise LbdnsError(
                f"{self.name}: the kernel can't limit to {cores:g} cores in periods of {period_s:g} s: a period has"
                f" 0.001 to 1 s, and the part of it that may be used at least 0.001 s"
            )
        if self.hierarchies.cpu.unified:
            _write(self.cpu_directory / "cpu.max", f"{quota} {period}")
        else:
            _write(self.cpu_directory / "cpu.cfs_period_us", str(period))
            _write(self.cpu_directory / "cpu.cfs_quota_us", str(quota))

    def limit_memory(self, size: int) -> None:
        """Bytes, beyond which its processes are killed rather than swapped out. Raises LbdnsError."""
        memory = self.hierarchies.memory
        if memory is None:
            raise LbdnsError(f"{self.name}: memory can't be limited: this machine has no memory controller")
        directory = memory.point / self.name
        limit, swap = ("memory.max", "memory.swap.max") if memory.unified else _MEMORY_V1
        _write(directory / limit, str(size))
        if (directory / swap).exists():  # the kernel may be built without
            # Version 2 limits swap itself, version 1 memory and swap together
            _write(directory / swap, "0" if memory.unified else str(size))

    def favour(self) -> None:
        """Let it have processors before whatever else this machine does. Raises LbdnsError.

        Else a group counts as much as one process outside, however many are in it.
        """
        if self.hierarchies.cpu.unified:
            _write(self.cpu_directory / "cpu.weight", "10000")
        else:
            _write(self.cpu_directory / "cpu.shares", str(2**18))

    def cpu_seconds(self) -> float:
        """Used by the group and all below, cumulative. Raises OSError, ValueError, KeyError if it can't be read."""
        directory = self.hierarchies.times.point / self.name
        if self.hierarchies.times.unified:
            return keyed((directory / "cpu.stat").read_bytes())[b"usage_usec"] / 1e6
        return int((directory / "cpuacct.usage").read_bytes()) / 1e9

    def memory_bytes(self) -> int | None:
        """In use by the group and all below, without the page cache of files, which is had back when it is wanted.

        None where there is no memory controller. Raises OSError, ValueError if it can't be read.
        """
        memory = self.hierarchies.memory
        if memory is None:
            return None
        directory = memory.point / self.name
        stat = keyed((directory / "memory.stat").read_bytes())
        used = int((directory / ("memory.current" if memory.unified else "memory.usage_in_bytes")).read_bytes())
        before = b"" if memory.unified else b"total_"
        return max(0, used - sum(stat.get(before + kind, 0) for kind in (b"inactive_file", b"active_file")))

    def pids(self) -> set[int]:
        """Everybody in it and below, in any of the hierarchies; nobody if it isn't there."""
        found: set[int] = set()
        for directory in self.directories():
            for folder in _tree(directory):
                with contextlib.suppress(FileNotFoundError, OSError):  # removed meanwhile (ENOENT, ENODEV)
                    found.update(map(int, (folder / "cgroup.procs").read_bytes().split()))
        # 0 stands for a process of a PID namespace that we don't see, and would mean our own process group to kill()
        return found - {0}

    def kill(self) -> None:
        """Kill everybody in it and below, and wait until they are gone. Raises LbdnsError."""

        def nobody_left() -> bool:
            # Looked for anew each time: who is killed may just have started another
            left = self.pids()
            if os.getpid() in left:
                raise LbdnsError(f"{self.name}: this process ({os.getpid()}) is in it: run the command outside the lab")
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not left

        if not _within(KILL_S, nobody_left):
            left = ", ".join(map(str, sorted(self.pids())))
            raise LbdnsError(f"{self.name}: processes {left} didn't end within {KILL_S:g} s of being killed")

    def remove(self) -> bool:
        """Remove it, all below, and what above it is unused then; whether there was anything. Raises LbdnsError.

        Nobody may be in it any more.
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


_MEMORY_V1: Final = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")


def make_group(name: str, hierarchies: Hierarchies | None = None) -> Group:
    """A new group, and its parents where they aren't there. Raises LbdnsError with what is missing."""
    group = Group(name, hierarchies or find_hierarchies())
    try:
        for hierarchy in group.hierarchies.all():
            _make(hierarchy, name)
    except LbdnsError:
        with contextlib.suppress(LbdnsError):
            group.remove()
        raise
    return group


def made_groups(hierarchies: Hierarchies | None = None) -> list[str]:
    """The names of all labs' groups, TOP/ID."""
    hierarchies = hierarchies or find_hierarchies()
    found = {f"{TOP}/{path.name}" for each in hierarchies.all() for path in (each.point / TOP).glob("*/")}
    return sorted(found)


def _make(hierarchy: Hierarchy, name: str) -> None:
    for last in (*[False] * (_TRIES - 1), True):
        try:
            directory = hierarchy.point
            for part in Path(name).parts:
                if hierarchy.unified:
                    _hand_down(directory)
                directory /= part
                directory.mkdir(exist_ok=True)
            return
        except FileNotFoundError:
            if last:
                raise LbdnsError(f"{directory}: the control group above it is removed again and again") from None
        except OSError as error:
            raise LbdnsError(f"{directory}: a control group can't be made: {_why(error)}") from None


def _hand_down(directory: Path) -> None:
    """Let the groups below a group of version 2 have its controllers ("Top-down Constraint", cgroup-v2.rst)."""
    file = directory / "cgroup.subtree_control"
    wanted = {"cpu", "memory"} & _words(directory / "cgroup.controllers") - _words(file)
    if not wanted:
        return
    try:
        file.write_text(" ".join(f"+{controller}" for controller in sorted(wanted)))
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        # EBUSY: "No Internal Process Constraint". It holds for every group but the true root, which a container lacks
        in_the_way = f" (this process, {os.getpid()}, is one of them)" if _is_inside(directory) else ""
        raise LbdnsError(
            f"{file}: can't enable {', '.join(sorted(wanted))}: {_why(error)}. A group with processes of its own can't"
            f" limit groups below it{in_the_way}: move those in {directory / 'cgroup.procs'} to a group of their own,"
            f" such as {directory / 'init'}, and try again"
        ) from None


def _is_inside(directory: Path) -> bool:
    with contextlib.suppress(OSError):
        return str(os.getpid()) in _words(directory / "cgroup.procs")
    return False


def _words(file: Path) -> set[str]:
    with contextlib.suppress(FileNotFoundError):
        return set(file.read_text().split())
    return set()


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        raise LbdnsError(f"{file}: can't write {text}: {_why(error)}") from None


def _why(error: OSError) -> str:
    if isinstance(error, PermissionError) and os.geteuid() != 0:
        return "it needs root: run it as root"
    return error.strerror or str(error)


def _tree(directory: Path) -> list[Path]:
    """It and all below, from the top down; nothing if it isn't there."""
    return [Path(folder) for folder, _, _ in os.walk(directory)]


def _remove_directory(directory: Path) -> None:
    def is_gone() -> bool:
        with contextlib.suppress(FileNotFoundError, OSError):
            directory.rmdir()
        return not directory.exists()

    if not _within(_REMOVE_S, is_gone):
        raise LbdnsError(f"{directory}: the control group can't be removed: somebody is in it, or below it")


def _looks(seconds: float) -> Iterator[None]:
    end = time.monotonic() + seconds
    while True:
        yield
        if time.monotonic() > end:
            return
        time.sleep(_STEP_S)


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether ``condition`` comes true in time."""
    return any(condition() for _ in _looks(seconds))
