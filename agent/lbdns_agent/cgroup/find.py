"""Finding the control group whose limits count: the agent's own, or one that the administrator names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from lbdns.errors import ConfigError
from lbdns_agent.cgroup.group import Group
from lbdns_agent.cgroup.levels import CpuLevel, CpuV1, CpuV2, MemoryLevel, MemoryV1, MemoryV2
from lbdns_agent.cgroup.mounts import UNIFIED, Mount, directory_of, read_membership, read_mounts, upwards

AUTO, OFF = "auto", "off"


def find_group(choice: str, proc: str = "/proc") -> Group | None:
    """The group for ``--cgroup``: ``auto``, ``off``, or a path as in /proc/self/cgroup or below a mount point.

    None when nothing but the root group applies. Raises ConfigError when a named group isn't there.
    """
    if choice == OFF:
        return None
    try:
        mounts = read_mounts(proc)
        membership = read_membership("self", proc)
    except OSError as error:
        if choice == AUTO:
            return None
        raise ConfigError(f"--cgroup {choice}: the cgroups of this host can't be read: {error.strerror}") from None
    if choice != AUTO:
        path = _named(choice, mounts)
        membership = dict.fromkeys(("cpu", "cpuacct", "memory", UNIFIED), path)
    cpu = _cpu_levels(mounts, membership)
    if not cpu and choice != AUTO:
        looked = ", ".join(str(mount.point) for mount in mounts if mount.controllers & {"cpu", UNIFIED})
        raise ConfigError(f"--cgroup {choice}: there is no such group below {looked or 'any cgroup mount'}")
    if not cpu or (choice == AUTO and len(cpu) == 1 and cpu[0].quota() is None):
        return None  # the root group has no limits but the host's
    return Group(cpu, _memory_levels(mounts, membership), os.cpu_count() or 1, choice != AUTO, proc)


def _named(choice: str, mounts: Sequence[Mount]) -> str:
    """A path as it stands in /proc/PID/cgroup, from that or from a directory below a mount point."""
    for mount in mounts:
        if Path(choice).is_relative_to(mount.point):
            below = "/" + str(Path(choice).relative_to(mount.point)).strip("./")
            return below if mount.root == "/" else mount.root + below
    return "/" + choice.strip("/")


def _cpu_levels(mounts: Sequence[Mount], membership: Mapping[str, str]) -> list[CpuLevel]:
    """The group and its ancestors where the cpu controller is: in version 1 if it is mounted there."""
    if not any("cpu" in mount.controllers for mount in mounts):
        found = directory_of(mounts, UNIFIED, membership.get(UNIFIED, "/"))
        return [CpuV2(directory) for directory in upwards(*found)] if found else []
    found = directory_of(mounts, "cpu", membership.get("cpu", "/"))
    if found is None:
        return []
    accounting = directory_of(mounts, "cpuacct", membership.get("cpuacct", "/"))
    return [CpuV1(directory, _same_group(directory, found[1], accounting)) for directory in upwards(*found)]


def _same_group(directory: Path, top: Path, accounting: tuple[Path, Path] | None) -> Path | None:
    """The directory of the same group in the cpuacct hierarchy, if its members are counted there.

    The two controllers are most often mounted together; apart, a process may be in a group of one only.
    """
    if accounting is None:
        return None
    member, member_top = accounting
    same = member_top / directory.relative_to(top)
    return same if same == member or same in member.parents else None


def _memory_levels(mounts: Sequence[Mount], membership: Mapping[str, str]) -> list[MemoryLevel]:
    first = any("memory" in mount.controllers for mount in mounts)
    controller = "memory" if first else UNIFIED
    found = directory_of(mounts, controller, membership.get(controller, "/"))
    if found is None:
        return []
    return [MemoryV1(directory) if first else MemoryV2(directory) for directory in upwards(*found)]
