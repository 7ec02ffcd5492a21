"""The CPU time of a process with all its descendants, cheaply, and never falling while processes come and go.

What a child has used moves to its parent's "waited for" times when the parent waits for it: the sum over the
living tree stays. What a process took along that left the tree is kept in the sum. A parent that never waits
(it ignores SIGCHLD) has a clock that counts for its children too, if the kernel allows one.

Cheaply: stat files stay open, a process whose line has not changed has hardly run or forked, so its children
are not asked for again (but every SWEEP rounds), and the search for new children is rationed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from lbdns_agent.kernel_file import read_once
from lbdns_agent.process import TICKS_PER_SECOND, Stat, StatFile, parse, read_stat
from lbdns_agent.webserver.inherited_clock import InheritedClock, ignores_children

KEPT_OPEN: Final = 256  # processes; a soft limit of 1024 open files is usual
SEARCHES: Final = 16  # children files read a round, but for new processes: more threads are searched in turns
SWEEP: Final = 16  # rounds after which children are searched whatever the line says: vfork() leaves no trace
LOOKS: Final = 3  # searches of a process in which it is asked whether it ignores its children's end
TRIES: Final = 3  # readings of a tree that changed under the eyes
SCAN_EVERY: Final = 5  # rounds, where the kernel has no children files (before 3.5, or built without)


@dataclass(slots=True)
class _Node:
    file: StatFile
    line: bytes = b""
    stat: Stat = field(default_factory=lambda: Stat("", 0, 0, 0, 1))
    children: tuple[int, ...] = ()
    searched: bool = False  # its children are as of the line
    looks: int = 0
    clock: InheritedClock | None = None  # counts from when the ticks were ``base``; ``children`` are older
    base: int = 0

    @property
    def ticks(self) -> float:
        """Of the process and of all those below it that are not among its ``children``."""
        if self.clock is not None:
            return self.base + self.clock.seconds() * TICKS_PER_SECOND
        return self.stat.used + self.stat.waited_for

    def close(self) -> None:
        self.file.close()
        if self.clock is not None:
            self.clock.close()


class ProcessTree:
    """The tree below some roots. ``seconds`` is to be called in rounds."""

    def __init__(self, roots: Iterable[int], proc: str = "/proc") -> None:
        self.roots = tuple(roots)
        self._proc = proc
        self._nodes: dict[int, _Node] = {}
        self._left = 0  # searches left in this round
        self._consistent = True
        self._sum = 0.0  # ticks, of the last consistent reading
        self._lost = 0.0  # ticks that left the tree
        self._highest = 0.0
        self._round = 0
        self._has_children_files = os.path.exists(f"{proc}/{os.getpid()}/task/{os.getpid()}/children")

    def seconds(self) -> float | None:
        """CPU seconds of the tree, cumulative; None when a root is gone."""
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
        """The processes of the last reading."""
        return set(self._nodes)

    def close(self) -> None:
        """Let go of all files."""
        self._forget_all_but(set())

    def _visit(self, pid: int, parent: int, seen: set[int]) -> float:
        """The ticks of ``pid``, a child of ``parent`` (0: a root), and everything below it; 0 when it is gone."""
        node = self._nodes.get(pid) or self._new(pid)
        if node is None or pid in seen:
            return 0.0
        before = node.children
        if not self._read(pid, node) or (parent and node.stat.parent != parent):
            return 0.0  # it has ended, and perhaps its number is another's
        seen.add(pid)
        if not before and not node.children:
            return node.ticks
        waited_for = node.stat.waited_for
        below = sum(self._visit(child, pid, seen) for child in self._in_turn(node.children))
        line = node.file.read()
        if line and line != node.line:
            node.line, node.stat, node.searched = line, parse(line), False
        if node.clock is not None:
            # Whoever gets the number of one of these is a new child, and the clock counts for it
            node.children = tuple(child for child in node.children if child in seen)
        else:
            # Whoever was waited for meanwhile may have been counted twice, or not at all
            self._consistent &= node.stat.waited_for == waited_for
        return below + node.ticks

    def _in_turn(self, children: tuple[int, ...]) -> tuple[int, ...]:
        """Another first child each round, so that the ration of searches comes to everybody."""
        first = self._round % len(children) if children else 0
        return children[first:] + children[:first]

    def _new(self, pid: int) -> _Node | None:
        try:
            node = _Node(StatFile(f"{self._proc}/{pid}/stat", keep=len(self._nodes) < KEPT_OPEN))
        except OSError:
            return None
        self._nodes[pid] = node
        return node

    def _read(self, pid: int, node: _Node) -> bool:
        """Bring a node up to date; whether the process is there."""
        line = node.file.read()
        if not line:
            return False
        if line != node.line:
            node.line, node.stat, node.searched = line, parse(line), False
        if self._has_children_files and node.clock is None:
            due = not node.searched or (pid + self._round) % SWEEP == 0
            if due and (self._left > 0 or node.looks == 0):
                self._search(pid, node)
        return True

    def _search(self, pid: int, node: _Node) -> None:
        """Find the children of all threads of a process (Documentation/filesystems/proc.rst 3.7)."""
        node.searched = True
        found: list[int] = []
        try:
            tasks = os.listdir(f"{self._proc}/{pid}/task") if node.stat.threads > 1 else [str(pid)]
            self._left -= len(tasks)
            for task in tasks:
                found += map(int, read_once(f"{self._proc}/{pid}/task/{task}/children").split())
        except OSError:
            # A thread ended just now and another inherits its children: forget none before they are found again
            found += node.children
            node.searched = False
        node.children = tuple(dict.fromkeys(found))
        node.looks += 1
        if node.looks <= LOOKS and node.stat.threads == 1 and ignores_children(self._proc, pid):
            with contextlib.suppress(OSError):
                node.clock = InheritedClock(pid)
                node.base = node.stat.used + node.stat.waited_for

    def _scan(self) -> None:
        """Find every child by its parent: the way without children files."""
        children: dict[int, list[int]] = {}
        for name in os.listdir(self._proc):
            if name.isdigit() and (stat := read_stat(self._proc, int(name))):
                children.setdefault(stat.parent, []).append(int(name))
        waiting = list(self.roots)
        while waiting:
            pid = waiting.pop()
            node = self._nodes.get(pid) or self._new(pid)
            if node is not None:
                node.children = tuple(children.get(pid, ()))
                waiting += node.children

    def _forget_all_but(self, pids: set[int]) -> None:
        for pid in [pid for pid in self._nodes if pid not in pids]:
            self._nodes.pop(pid).close()
