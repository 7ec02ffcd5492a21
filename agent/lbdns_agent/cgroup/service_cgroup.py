"""Finds the control group that contains exactly one program, such as a systemd service, and reads its CPU time."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from lbdns_agent.cgroup.cgroup_controllers import parse_flat_keyed
from lbdns_agent.cgroup.cgroup_mounts import (
    UNIFIED,
    cgroup_directory,
    cgroup_subtree,
    read_cgroup_membership,
    read_cgroup_mounts,
)
from lbdns_agent.kernel_files import read_once
from lbdns_agent.process_stat import descends_from, read_process_stat


@dataclass(frozen=True)
class ServiceCgroup:
    """A control group in the version 2 hierarchy or in the version 1 cpuacct hierarchy."""

    directory: Path
    unified: bool

    def seconds(self) -> float:
        """Return the CPU time (s) used by the group and its descendants. Raises OSError, ValueError or KeyError."""
        if self.unified:
            return parse_flat_keyed(read_once(f"{self.directory}/cpu.stat"))[b"usage_usec"] / 1e6
        return int(read_once(f"{self.directory}/cpuacct.usage")) / 1e9


def find_service_cgroup(roots: Collection[int], pids: Collection[int], proc: str = "/proc") -> ServiceCgroup | None:
    """Return the group that contains exactly ``pids`` (``roots`` and their descendants), or None if none exists."""
    try:
        membership = read_cgroup_membership(min(roots), proc)
        mounts = read_cgroup_mounts(proc)
    except OSError:
        return None
    for controller in ("cpuacct", UNIFIED):
        path = membership.get(controller, "/")
        # The root group contains every other process too
        found = cgroup_directory(mounts, controller, path) if path != "/" else None
        if found is None or found[0] == found[1]:
            continue
        group = ServiceCgroup(found[0], controller == UNIFIED)
        with contextlib.suppress(OSError, ValueError, KeyError):
            group.seconds()
            members = _members(found[0])
            strayed = any(read_process_stat(proc, pid) for pid in set(pids) - members)
            if not strayed and all(descends_from(proc, pid, roots) for pid in members.difference(pids)):
                return group
    return None


def _members(directory: Path) -> set[int]:
    return {int(pid) for folder in cgroup_subtree(directory) for pid in read_once(f"{folder}/cgroup.procs").split()}
