"""Finds the processes that own the web server's listening sockets, and counts their CPU time.

The search examines the open files of all processes. Because it takes milliseconds, it is not repeated for every sample.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from typing import Final

from lbdns_agent.cgroup.service_cgroup import ServiceCgroup, find_service_cgroup
from lbdns_agent.kernel_files import read_once
from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.process_stat import read_process_stat
from lbdns_agent.webserver.process_tree_cpu import ProcessTreeCpu

SEARCH_INTERVAL: Final = 30.0  # seconds between two searches of all processes while the server isn't found
GROUP_CHECK_INTERVAL: Final = 60.0  # seconds between two checks that the cgroup holds no other process
#: The check runs at once if the group has used this many times the CPU time of the processes, plus these seconds
SUSPICIOUS_FACTOR, SUSPICIOUS_SECONDS = 1.25, 0.05
SUSPICION_PAUSE: Final = 5.0  # seconds without such a check after one that found no other process
_MANAGERS: Final = (b"systemd", b"init")  # they own the sockets of services that they start on demand

NOTHING: Final[frozenset[int]] = frozenset()


class WebServerEndedError(MissingValueError):
    """Raised if the web server has stopped since the last search for its processes."""


class WebServerProcesses:
    """The web server's processes: the owners of its listening sockets, and all their descendants."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._tree: ProcessTreeCpu | None = None
        self._listening = NOTHING  # inodes of all listening sockets at the last call of ``find``
        self._own = NOTHING  # inodes of those that the tree owns
        self._next_search = 0.0
        self._group: ServiceCgroup | None = None
        self._next_group_check = 0.0
        self._trusted_until = 0.0
        self._sum: float | None = None  # CPU seconds returned by the last call
        self._of_tree = 0.0  # the processes' seconds at that time
        self._of_group: float | None = None  # the group's seconds at that time

    def find(self, wanted: frozenset[int], listening: frozenset[int]) -> frozenset[int]:
        """If the owners of the ``wanted`` sockets (inodes) are unknown or may have changed, search for them.

        Returns the sockets in ``listening`` that belong to these owners, or an empty set if the agent isn't permitted
        to see them."""
        changed, self._listening = listening != self._listening, listening
        if self._tree is not None and changed:
            self._own = listening & _sockets_of(self._proc, self._tree.roots)
            if self._own.isdisjoint(wanted):
                self._forget()  # another server has taken the port over
        now = time.monotonic()
        if self._tree is None and (changed or now >= self._next_search):
            self._next_search = now + SEARCH_INTERVAL
            if roots := find_socket_owners(self._proc, wanted):
                self._tree = ProcessTreeCpu(roots, self._proc)
                self._own = listening & _sockets_of(self._proc, roots)
        return self._own

    def cpu_seconds(self, port: int) -> float:
        """Return the CPU time in seconds that the web server has used.

        Raises WebServerEndedError or MissingValueError.
        """
        if self._tree is None:
            raise MissingValueError(
                f"not permitted to inspect the process that listens on port {port}; run the agent as root, "
                "or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
            )
        seconds = self._tree.seconds()
        if seconds is None:
            self._forget()
            raise WebServerEndedError("the web server has stopped")
        return self._from_best_source(self._tree, seconds)

    def _forget(self) -> None:
        if self._tree is not None:
            self._tree.close()
        self._tree, self._own, self._next_search = None, NOTHING, 0.0
        self._group, self._next_group_check, self._trusted_until = None, 0.0, 0.0
        self._sum, self._of_tree, self._of_group = None, 0.0, None

    def _from_best_source(self, tree: ProcessTreeCpu, of_tree: float) -> float:
        """Return the CPU time of the web server's own cgroup if there is one, and otherwise that of its processes.

        A cgroup's CPU time is complete, because it includes processes that have left the tree, and more precise than
        clock ticks. If the source changes later, the total does not jump: only the increases come from the new source.
        """
        used = of_tree - self._of_tree
        of_group = _seconds_of(self._group)
        group_used = None if of_group is None or self._of_group is None else of_group - self._of_group
        now = time.monotonic()
        limit = SUSPICIOUS_FACTOR * used + SUSPICIOUS_SECONDS
        suspicious = group_used is not None and group_used > limit and now >= self._trusted_until
        if suspicious or now >= self._next_group_check:
            group = find_service_cgroup(tree.roots, tree.pids(), self._proc)
            self._next_group_check = now + GROUP_CHECK_INTERVAL
            if group != self._group:
                self._group, group_used, of_group = group, None, _seconds_of(group)
            elif suspicious:
                self._trusted_until = now + SUSPICION_PAUSE
        if self._sum is None:
            self._sum = of_tree if of_group is None else of_group
        else:
            self._sum += used if group_used is None else group_used
        self._of_tree, self._of_group = of_tree, of_group
        return self._sum


def _seconds_of(group: ServiceCgroup | None) -> float | None:
    try:
        return None if group is None else group.seconds()
    except (OSError, ValueError, KeyError):
        return None


def _sockets_of(proc: str, pids: Iterable[int]) -> frozenset[int]:
    return NOTHING.union(*(process_sockets(proc, pid) for pid in pids))


def process_sockets(proc: str, pid: int) -> set[int]:
    """Return the inodes of a process's sockets, or an empty set if the agent isn't permitted to see them."""
    found = set()
    folder = f"{proc}/{pid}/fd"
    for name in _list(folder):
        try:
            target = os.readlink(f"{folder}/{name}")
        except OSError:
            continue  # closed in the meantime
        if target.startswith("socket:["):
            found.add(int(target[8:-1]))
    return found


def find_socket_owners(proc: str, inodes: Collection[int]) -> tuple[int, ...]:
    """Return the topmost processes that own sockets in ``inodes``.

    The result is empty if the agent isn't permitted to see the owners.

    A web server's children inherit its sockets. If a process and its parent both own sockets, only the parent counts.

    """
    pids = [int(name) for name in os.listdir(proc) if name.isdigit()]
    owners = {pid for pid in pids if not process_sockets(proc, pid).isdisjoint(inodes)}
    if len(owners) > 1 and 1 in owners and _name(proc, 1) in _MANAGERS:
        owners.discard(1)
    return tuple(sorted(pid for pid in owners if (stat := read_process_stat(proc, pid)) and stat.parent not in owners))


def _list(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _name(proc: str, pid: int) -> bytes:
    try:
        return read_once(f"{proc}/{pid}/comm").strip()
    except OSError:
        return b""
