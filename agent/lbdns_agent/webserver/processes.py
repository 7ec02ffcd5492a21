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
GROUP_AGAIN: Final = 60.0  # seconds until a cgroup is checked again for strangers, or at once ...
TOO_MUCH: Final = 1.25, 0.05  # ... if it has used that many times as much as the processes, and these CPU seconds ...
BELIEVED: Final = 5.0  # ... unless it was found to be theirs all the same, so many seconds ago

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
        self._believed = 0.0
        self._sum = self._of_tree = 0.0  # CPU seconds that were told last, and those of the processes then, ...
        self._of_group: float | None = None  # ... and of the group

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
        self._group, self._group_again, self._believed = None, 0.0, 0.0
        self._sum, self._of_tree, self._of_group = 0.0, 0.0, None

    def _from_best_source(self, tree: ProcessTree, of_tree: float) -> float:
        """The time as the server's own cgroup counts it, if it has one: without ticks, and nothing is lost. The sum
        goes on when the source changes.
        """
        used = of_tree - self._of_tree
        of_group = _seconds_of(self._group)
        of_both = None if of_group is None or self._of_group is None else of_group - self._of_group
        now = time.monotonic()
        too_much = of_both is not None and of_both > TOO_MUCH[0] * used + TOO_MUCH[1] and now >= self._believed
        if too_much or now >= self._group_again:
            group = find_own_group(tree.roots, tree.pids(), self._proc)
            self._group_again = now + GROUP_AGAIN
            if group != self._group:
                self._group, of_both, of_group = group, None, _seconds_of(group)
            elif too_much:
                self._believed = now + BELIEVED
        self._sum += used if of_both is None else of_both
        self._of_tree, self._of_group = of_tree, of_group
        return self._sum


def _seconds_of(group: OwnGroup | None) -> float | None:
    """None without a group, and if it has gone."""
    try:
        return None if group is None else group.seconds()
    except (OSError, ValueError, KeyError):
        return None


def _sockets_of(proc: str, pids: Iterable[int]) -> frozenset[int]:
    """The sockets of those processes that may be seen."""
    found: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found |= sockets_of(proc, pid)
    return frozenset(found)
