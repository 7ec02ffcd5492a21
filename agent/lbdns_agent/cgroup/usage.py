"""The CPU time of a control group that belongs to one program alone, such as a systemd service."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from lbdns_agent.cgroup.files import keyed
from lbdns_agent.cgroup.mounts import UNIFIED, directory_of, read_membership, read_mounts, subtree
from lbdns_agent.kernel_file import read_once
from lbdns_agent.process import read_stat
from lbdns_agent.webserver.owner import is_below


@dataclass(frozen=True, slots=True)
class OwnGroup:
    """A group's directory, in version 2 or in version 1's cpuacct hierarchy."""

    directory: Path
    unified: bool

    def seconds(self) -> float:
        """CPU seconds used by the group and those below it, cumulative. Raises OSError, ValueError, KeyError."""
        if self.unified:
            return keyed(read_once(f"{self.directory}/cpu.stat"))[b"usage_usec"] / 1e6
        return int(read_once(f"{self.directory}/cpuacct.usage")) / 1e9


def find_own_group(roots: Collection[int], pids: Collection[int], proc: str = "/proc") -> OwnGroup | None:
    """The group that holds the processes below ``roots`` (``pids``), all of them and nobody else; or None."""
    try:
        membership = read_membership(min(roots), proc)
        mounts = read_mounts(proc)
    except OSError:
        return None
    for controller in ("cpuacct", UNIFIED):
        path = membership.get(controller, "/")
        # The root group is everybody's
        found = directory_of(mounts, controller, path) if path != "/" else None
        if found is None or found[0] == found[1]:
            continue
        group = OwnGroup(found[0], controller == UNIFIED)
        with contextlib.suppress(OSError, ValueError, KeyError):
            group.seconds()
            members = _members(found[0])
            strayed = any(read_stat(proc, pid) for pid in set(pids) - members)
            if not strayed and all(is_below(proc, pid, roots) for pid in members.difference(pids)):
                return group
    return None


def _members(directory: Path) -> set[int]:
    return {int(pid) for folder in subtree(directory) for pid in read_once(f"{folder}/cgroup.procs").split()}
