"""Measures the CPU time of a process and all its descendants. The total never decreases as processes start and end.

When a parent waits for a child that has exited, the kernel adds the child's CPU time to the parent's "waited for" time.
The sum over all living processes therefore stays the same. The CPU time of processes that leave the tree still counts
towards the total. A parent that ignores SIGCHLD never waits for its children. The agent measures the CPU time of such a
parent and its children with perf events, if these are permitted.

To save CPU time, the agent keeps stat files open, and each round searches for the children of only a few processes. If
a process's stat line is unchanged, the process has hardly run. The agent then searches for its children only every
SWEEP rounds.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from lbdns_agent.kernel_files import read_once
from lbdns_agent.process_stat import KEPT_OPEN, TICKS_PER_SECOND, ProcessStat, ProcessStatFile, parse, read_process_stat

SEARCHES: Final = 16  # children files read per round, not counting new processes; other files are read in later rounds
SWEEP: Final = 16  # rounds between searches of a process whose line is unchanged: vfork() does not change the line
SIGNAL_CHECKS: Final = 3  # searches of a process that also check whether it ignores SIGCHLD
TRIES: Final = 3  # attempts to read a tree that changes during the read
SCAN_EVERY: Final = 5  # rounds between scans of all processes on kernels without children files (before 3.5)

# perf_event_open(2): its system call number by machine, and struct perf_event_attr in its sixth size
_SYSCALL: Final = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_ATTRIBUTES = struct.Struct("=IIQQQQQ64x")  # type, size, config, period, sample type, read format, flags
_SOFTWARE, _TASK_CLOCK, _INHERIT = 1, 1, 1 << 1
_CLOSE_ON_EXEC: Final = 8
_SIGCHLD_BIT: Final = 1 << 16  # signal 17, in the mask of /proc/PID/status


def ignores_children(proc: str, pid: int) -> bool:
    """Return whether a process ignores SIGCHLD (proc_pid_status(5), SigIgn), or False if it has exited."""
    try:
        status = read_once(f"{proc}/{pid}/status")
    except OSError:
        return False
    mask = status.partition(b"\nSigIgn:")[2].split(None, 1)
    return bool(mask) and bool(int(mask[0], 16) & _SIGCHLD_BIT)


class InheritedCpuClock:
    """A perf event that counts the CPU time of a process and all processes that it starts, until ``close`` is called.

    This clock is needed for a process that ignores SIGCHLD, because the kernel discards its children's CPU times when
    they exit (wait(2), NOTES). Apache's mod_cgid daemon, whose children are the CGI programs, ignores SIGCHLD.
    """

    def __init__(self, pid: int) -> None:
        """Raises OSError if the kernel lacks perf events or doesn't permit their use (perf_event_paranoid)."""
        import ctypes  # takes a megabyte, and few agents need it

        number = _SYSCALL.get(os.uname().machine)
        if number is None:
            raise OSError(f"the system call number of perf_event_open is unknown on {os.uname().machine}")
        attributes = ctypes.create_string_buffer(
            _ATTRIBUTES.pack(_SOFTWARE, _ATTRIBUTES.size, _TASK_CLOCK, 0, 0, 0, _INHERIT), _ATTRIBUTES.size
        )
        kernel = ctypes.CDLL(None, use_errno=True)
        self._fd: int = kernel.syscall(number, attributes, pid, -1, -1, ctypes.c_ulong(_CLOSE_ON_EXEC))
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def seconds(self) -> float:
        """Return the CPU seconds counted so far. Raises OSError."""
        return int.from_bytes(os.read(self._fd, 8), sys.byteorder) / 1e9

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@dataclass
class _Node:
    file: ProcessStatFile
    line: bytes = b""
    stat: ProcessStat = field(default_factory=lambda: ProcessStat("", 0, 0, 0, 1))
    children: tuple[int, ...] = ()
    searched: bool = False  # ``children`` is up to date with ``line``
    searches: int = 0
    clock: InheritedCpuClock | None = None  # started when the ticks were ``base``; leaves out ``children``
    base: int = 0

    @property
    def ticks(self) -> float:
        """The CPU ticks of the process and its descendants, excluding ``children`` and their descendants."""
        if self.clock is not None:
            return self.base + self.clock.seconds() * TICKS_PER_SECOND
        return self.stat.used + self.stat.waited_for

    def close(self) -> None:
        self.file.close()
        if self.clock is not None:
            self.clock.close()


class ProcessTreeCpu:
    """A process tree: the processes in ``roots`` and all their descendants. Each call of ``seconds`` is one round."""

    def __init__(self, roots: Iterable[int], proc: str = "/proc") -> None:
        self.roots = tuple(roots)
        self._proc = proc
        self._nodes: dict[int, _Node] = {}
        self._left = 0  # searches that remain in this round
        self._consistent = True
        self._sum = 0.0  # ticks at the last consistent read
        self._lost = 0.0  # ticks of processes that left the tree
        self._highest = 0.0
        self._round = 0
        self._has_children_files = os.path.exists(f"{proc}/{os.getpid()}/task/{os.getpid()}/children")

    def seconds(self) -> float | None:
        """Return the CPU time in seconds used by the tree, or None if a root has exited."""
        self._round += 1
        self._left = SEARCHES
        if not self._has_children_files and self._round % SCAN_EVERY == 1:
            self._scan()
        total = 0.0
        for _ in range(TRIES):
            self._consistent = True
            seen: set[int] = set()
            total = sum(self._visit(root, 0, seen) for root in self.roots)
            if not seen.issuperset(self.roots):
                return None
            self._forget_all_but(seen)
            if self._consistent:
                self._lost += max(0.0, self._sum - total)
                self._sum = total
                break
        self._highest = max(self._highest, total + self._lost)
        return self._highest / TICKS_PER_SECOND

    def pids(self) -> set[int]:
        """Return the IDs of the processes found in the last round."""
        return set(self._nodes)

    def close(self) -> None:
        self._forget_all_but(set())

    def _visit(self, pid: int, parent: int, seen: set[int]) -> float:
        """Return the CPU ticks of process ``pid`` and all its descendants, or 0 if it has exited.

        ``parent`` is the parent's process ID, or 0 if ``pid`` is a root.
        """
        node = self._nodes.get(pid) or self._new(pid)
        if node is None or pid in seen:
            return 0.0
        before = node.children
        if not self._read(pid, node) or (parent and node.stat.parent != parent):
            return 0.0  # it has ended, and another process may have its number
        seen.add(pid)
        if not before and not node.children:
            return node.ticks
        waited_for = node.stat.waited_for
        below = sum(self._visit(child, pid, seen) for child in self._in_turn(node.children))
        line = node.file.read()
        if line and line != node.line:
            node.line, node.stat, node.searched = line, parse(line), False
        if node.clock is not None:
            # A later child with the same number as one of these is a new process, which the clock includes
            node.children = tuple(child for child in node.children if child in seen)
        else:
            # A child that was waited for in the meantime may have been counted twice, or not at all
            self._consistent &= node.stat.waited_for == waited_for
        return below + node.ticks

    def _in_turn(self, children: tuple[int, ...]) -> tuple[int, ...]:
        """Return the children, beginning with a different child in each round.

        Every child is therefore searched eventually.
        """
        first = self._round % len(children) if children else 0
        return children[first:] + children[:first]

    def _new(self, pid: int) -> _Node | None:
        try:
            node = _Node(ProcessStatFile(f"{self._proc}/{pid}/stat", keep=len(self._nodes) < KEPT_OPEN))
        except OSError:
            return None
        self._nodes[pid] = node
        return node

    def _read(self, pid: int, node: _Node) -> bool:
        line = node.file.read()
        if not line:
            return False
        if line != node.line:
            node.line, node.stat, node.searched = line, parse(line), False
        if self._has_children_files and node.clock is None:
            due = not node.searched or (pid + self._round) % SWEEP == 0
            if due and (self._left > 0 or node.searches == 0):
                self._search(pid, node)
        return True

    def _search(self, pid: int, node: _Node) -> None:
        """Return the children of all threads of a process (Documentation/filesystems/proc.rst, section 3.7)."""
        node.searched = True
        found: list[int] = []
        try:
            tasks = os.listdir(f"{self._proc}/{pid}/task") if node.stat.threads > 1 else [str(pid)]
            self._left -= len(tasks)
            for task in tasks:
                found += map(int, read_once(f"{self._proc}/{pid}/task/{task}/children").split())
        except OSError:
            # A thread has ended, and another one inherits its children: keep them all until they are found again
            found += node.children
            node.searched = False
        node.children = tuple(dict.fromkeys(found))
        node.searches += 1
        if node.searches <= SIGNAL_CHECKS and node.stat.threads == 1 and ignores_children(self._proc, pid):
            with contextlib.suppress(OSError):
                node.clock = InheritedCpuClock(pid)
                node.base = node.stat.used + node.stat.waited_for

    def _scan(self) -> None:
        children: dict[int, list[int]] = {}
        for name in os.listdir(self._proc):
            if name.isdigit() and (stat := read_process_stat(self._proc, int(name))):
                children.setdefault(stat.parent, []).append(int(name))
        pending = list(self.roots)
        while pending:
            pid = pending.pop()
            node = self._nodes.get(pid) or self._new(pid)
            if node is not None:
                node.children = tuple(children.get(pid, ()))
                pending += node.children

    def _forget_all_but(self, pids: set[int]) -> None:
        for pid in [pid for pid in self._nodes if pid not in pids]:
            self._nodes.pop(pid).close()
