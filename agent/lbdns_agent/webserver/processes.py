"""The processes of the web server: which they are, what they listen on, what CPU time they have used."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from typing import Final

from lbdns_agent.absent import AbsentError
from lbdns_agent.cgroup.usage import OwnGroup, find_own_group
from lbdns_agent.webserver.owner import find_owners, sockets_of
from lbdns_agent.webserver.process_tree import ProcessTree

LOOK_AGAIN: Final = 30.0  # seconds until all processes are searched once more for one that could not be seen
GROUP_AGAIN: Final = 60.0  # seconds until a cgroup is checked again for strangers

NOTHING: Final[frozenset[int]] = frozenset()


class EndedError(AbsentError):
    """The server has ended since it was found."""


class Processes:
    """Those that hold certain sockets, and all below them."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._tree: ProcessTree | None = None
        self._listening = NOTHING  # inodes of all listening sockets at the last look
        self._own = NOTHING  # those of the tree
        self._look_again = 0.0
        self._group: OwnGroup | None = None
        self._group_again = 0.0
        self._last: float | None = None  # what the source of CPU time read last, and
        self._carried = 0.0  # what is added to it, so that the sum goes on when the source changes

    def find(self, wanted: frozenset[int], listening: frozenset[int]) -> frozenset[int]:
        """Find who holds the ``wanted`` sockets (inodes), unless that is known and nothing has changed; which of
        the ``listening`` sockets are theirs. Empty when the processes can't be seen.
        """
        changed, self._listening = listening != self._listening, listening
        if self._tree is not None and changed:
            self._own = listening & _sockets_of(self._proc, self._tree.roots)
            if self._own.isdisjoint(wanted):
                self._leave()  # another server has taken the port over
        now = time.monotonic()
        if self._tree is None and (changed or now >= self._look_again):
            self._look_again = now + LOOK_AGAIN
            if roots := find_owners(self._proc, wanted):
                self._tree = ProcessTree(roots, self._proc)
                self._own = listening & _sockets_of(self._proc, roots)
        return self._own

    def cpu_seconds(self, port: int) -> float:
        """CPU seconds of them all, cumulative. Raises EndedError, AbsentError when they can't be seen."""
        if self._tree is None:
            raise AbsentError(
                f"the process listening on port {port} can't be seen; run the agent as root, "
                "or give it CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
            )
        seconds = self._tree.seconds()
        if seconds is None:
            self._leave()
            raise EndedError("the web server has ended")
        return self._from_best_source(self._tree, seconds)

    def _leave(self) -> None:
        if self._tree is not None:
            self._tree.close()
        self._tree, self._own, self._look_again = None, NOTHING, 0.0
        self._group, self._group_again, self._last, self._carried = None, 0.0, None, 0.0

    def _from_best_source(self, tree: ProcessTree, of_tree: float) -> float:
        """The time as the server's own cgroup counts it, if it has one: without ticks, and nothing is lost."""
        source, seconds = self._group, of_tree
        if (now := time.monotonic()) >= self._group_again:
            source = find_own_group(tree.roots, tree.pids(), self._proc)
            self._group_again = now + GROUP_AGAIN
        if source is not None:
            try:
                seconds = source.seconds()
            except (OSError, ValueError, KeyError):
                source = None
        if source != self._group and self._last is not None:
            self._carried += self._last - seconds
        self._group, self._last = source, seconds
        return self._carried + seconds


def _sockets_of(proc: str, pids: Iterable[int]) -> frozenset[int]:
    """The sockets of those processes that may be seen."""
    found: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found |= sockets_of(proc, pid)
    return frozenset(found)
