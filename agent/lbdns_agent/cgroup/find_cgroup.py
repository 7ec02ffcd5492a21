"""Finds the control group to measure: the agent's own group, or the one named by ``--cgroup``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from lbdns_agent.agent_options import AUTO, OFF
from lbdns_agent.cgroup.cgroup_controllers import CpuController, CpuControllerV1, MemoryController, MemoryControllerV1
from lbdns_agent.cgroup.cgroup_mounts import (
    UNIFIED,
    CgroupMount,
    cgroup_and_ancestors,
    cgroup_directory,
    read_cgroup_membership,
    read_cgroup_mounts,
)
from lbdns_agent.cgroup.limiting_cgroup import LimitingCgroup
from lbdns_shared.errors import ConfigError


def find_cgroup(choice: str, proc: str = "/proc") -> LimitingCgroup | None:
    """Return the group that ``--cgroup`` selects; ``choice`` is ``auto``, ``off`` or a path (see ``_named``).

    Returns None if ``choice`` is ``off``, or if ``auto`` finds only the root group. Raises ConfigError if a named group
    doesn't exist.
    """
    if choice == OFF:
        return None
    try:
        mounts = read_cgroup_mounts(proc)
        membership = read_cgroup_membership("self", proc)
    except OSError as error:
        if choice == AUTO:
            return None
        raise ConfigError(f"--cgroup {choice}: cannot read this host's cgroups: {error.strerror}") from None
    if choice != AUTO:
        path = _named(choice, mounts)
        membership = dict.fromkeys(("cpu", "cpuacct", "memory", UNIFIED), path)
    cpu = _cpu_levels(mounts, membership)
    if not cpu and choice != AUTO:
        searched = ", ".join(str(mount.point) for mount in mounts if mount.controllers & {"cpu", UNIFIED})
        raise ConfigError(f"--cgroup {choice}: there is no such group under {searched or 'any cgroup mount'}")
    if not cpu or (choice == AUTO and len(cpu) == 1 and cpu[0].quota() is None):
        return None  # the root group has only the limits of the host
    return LimitingCgroup(cpu, _memory_levels(mounts, membership), os.cpu_count() or 1, choice != AUTO, proc)


def _named(choice: str, mounts: Sequence[CgroupMount]) -> str:
    """Return the group's path in the form used by /proc/PID/cgroup.

    ``choice`` is either a path in that form or the group's directory below a mount point.
    """
    for mount in mounts:
        if Path(choice).is_relative_to(mount.point):
            below = "/" + str(Path(choice).relative_to(mount.point)).strip("./")
            return below if mount.root == "/" else mount.root + below
    return "/" + choice.strip("/")


def _cpu_levels(mounts: Sequence[CgroupMount], membership: Mapping[str, str]) -> list[CpuController]:
    """Return the cpu controllers of the group and its ancestors.

    If a version 1 hierarchy is mounted, the function returns version 1 controllers.
    """
    if not any("cpu" in mount.controllers for mount in mounts):
        found = cgroup_directory(mounts, UNIFIED, membership.get(UNIFIED, "/"))
        return [CpuController(directory) for directory in cgroup_and_ancestors(*found)] if found else []
    found = cgroup_directory(mounts, "cpu", membership.get("cpu", "/"))
    if found is None:
        return []
    accounting = cgroup_directory(mounts, "cpuacct", membership.get("cpuacct", "/"))
    return [
        CpuControllerV1(directory, _same_group(directory, found[1], accounting))
        for directory in cgroup_and_ancestors(*found)
    ]


def _same_group(directory: Path, top: Path, accounting: tuple[Path, Path] | None) -> Path | None:
    """Return the group's directory in the cpuacct hierarchy, or None if there is none.

    The cpu and cpuacct controllers are usually mounted together. If they are mounted separately, a process may belong
    to the group in only one of the two hierarchies.
    """
    if accounting is None:
        return None
    counted, counted_top = accounting
    same = counted_top / directory.relative_to(top)
    return same if same == counted or same in counted.parents else None


def _memory_levels(mounts: Sequence[CgroupMount], membership: Mapping[str, str]) -> list[MemoryController]:
    version1 = any("memory" in mount.controllers for mount in mounts)
    controller = "memory" if version1 else UNIFIED
    found = cgroup_directory(mounts, controller, membership.get(controller, "/"))
    if found is None:
        return []
    new = MemoryControllerV1 if version1 else MemoryController
    return [new(directory) for directory in cgroup_and_ancestors(*found)]
