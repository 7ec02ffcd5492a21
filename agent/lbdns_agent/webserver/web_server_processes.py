"""The processes of the web server: finds them, their listening sockets and their CPU time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from typing import Final

from lbdns_agent.cgroup.service_cgroup import ServiceCgroup, find_service_cgroup
from lbdns_agent.missing_value import MissingValueError
from lbdns_agent.webserver.process_tree_cpu import ProcessTreeCpu
from lbdns_agent.webserver.socket_owners import find_socket_owners, process_sockets

SEARCH_INTERVAL: Final = 30.0  # seconds between two searches of all processes while the server isn't found
GROUP_CHECK_INTERVAL: Final = 60.0  # seconds between two checks that the cgroup holds no other process
#: The check runs at once if the group has used this many times the CPU time of the processes, plus these seconds
SUSPICIOUS_FACTOR, SUSPICIOUS_SECONDS = 1.25, 0.05
SUSPICION_PAUSE: Final = 5.0  # seconds without such a check after one that found no other process

NOTHING: Final[frozenset[int]] = frozenset()


class WebServerEndedError(MissingValueError):
    """The server has ended since the last search."""


class WebServerProcesses:
    """The processes that own the server's sockets, and all processes below them."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._tree: ProcessTreeCpu | None = None
        self._listening = NOTHING  # inodes of all listening sockets at the last call of ``find``
        self._own = NOTHING  # inodes of those that the tree owns
        self._next_search = 0.0
        self._group: ServiceCgroup | None = None
        self._next_group_check = 0.0
        self._trusted_until = 0.0
        self._sum = self._of_tree = 0.0  # CPU seconds: the sum, and the processes' seconds at that time
        self._of_group: float | None = None  # the group's seconds at that time

    def find(self, wanted: frozenset[int], listening: frozenset[int]) -> frozenset[int]:
        """Find the owners of the ``wanted`` sockets (inodes), unless they are known and nothing has changed.

        Returns which of the ``listening`` sockets they own; empty if this process isn't permitted to see them.
        """
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
        """Return the cumulative CPU seconds of all processes. Raises WebServerEndedError, MissingValueError."""
        if self._tree is None:
            raise MissingValueError(
                f"not permitted to see the process that listens on port {port}; run the agent as root, "
                "or give it CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
            )
        seconds = self._tree.seconds()
        if seconds is None:
            self._forget()
            raise WebServerEndedError("the web server has ended")
        return self._from_best_source(self._tree, seconds)

    def _forget(self) -> None:
        """Forget the processes that were found."""
        if self._tree is not None:
            self._tree.close()
        self._tree, self._own, self._next_search = None, NOTHING, 0.0
        self._group, self._next_group_check, self._trusted_until = None, 0.0, 0.0
        self._sum, self._of_tree, self._of_group = 0.0, 0.0, None

    def _from_best_source(self, tree: ProcessTreeCpu, of_tree: float) -> float:
        """Return the sum, increased by the time since the last call.

        The server's own cgroup is the better source if there is one: it is more precise than ticks, and loses
        nothing. The sum stays continuous when the source changes.
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
        self._sum += used if group_used is None else group_used
        self._of_tree, self._of_group = of_tree, of_group
        return self._sum


def _seconds_of(group: ServiceCgroup | None) -> float | None:
    """Return the group's CPU seconds, or None without a group or if it was removed."""
    try:
        return None if group is None else group.seconds()
    except (OSError, ValueError, KeyError):
        return None


def _sockets_of(proc: str, pids: Iterable[int]) -> frozenset[int]:
    """Return the sockets of the processes that this process is permitted to see."""
    found: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found |= process_sockets(proc, pid)
    return frozenset(found)
