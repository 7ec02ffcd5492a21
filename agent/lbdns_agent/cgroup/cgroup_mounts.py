"""Finds the directory of a control group from /proc/PID/mountinfo and /proc/PID/cgroup.

The parsers are pure functions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Key for the single hierarchy of version 2, in place of a controller's name in version 1
UNIFIED: Final = ""


@dataclass(frozen=True)
class CgroupMount:
    """A mounted hierarchy of control groups. ``root`` is the group that is mounted at ``point``.

    For version 2, ``controllers`` is {UNIFIED}.
    """

    point: Path
    root: str
    controllers: frozenset[str]


def parse_cgroup_mounts(text: str) -> list[CgroupMount]:
    """Return the cgroup mounts listed in a mountinfo file (proc_pid_mountinfo(5))."""
    found = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if not separator or len(fields) < 5 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        controllers = {UNIFIED} if kind[0] == "cgroup2" else set(kind[-1].split(","))
        found.append(CgroupMount(Path(_unescape(fields[4])), _unescape(fields[3]), frozenset(controllers)))
    return found


def parse_cgroup_membership(text: str) -> dict[str, str]:
    """Parse /proc/PID/cgroup (cgroups(7)). Return each controller's group, keyed by controller.

    The key of a version 2 group is UNIFIED.
    """
    found = {}
    for line in text.splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3:
            for controller in fields[1].split(","):
                found[controller] = fields[2]
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def cgroup_directory(mounts: Iterable[CgroupMount], controller: str, path: str) -> tuple[Path, Path] | None:
    """Return the directory and mount point of group ``path`` in a controller's hierarchy, or None if not found."""
    for mount in mounts:
        if controller not in mount.controllers:
            continue
        root = mount.root.rstrip("/")
        relative = path[len(root) :] if not root or path == root or path.startswith(root + "/") else ".."
        if ".." in relative.split("/"):
            relative = ""  # a container sees only its own part of the tree: the mount point is its group
        directory = mount.point / relative.strip("/")
        if directory.is_dir():
            return directory, mount.point
    return None


def cgroup_and_ancestors(directory: Path, top: Path) -> Iterator[Path]:
    """Yield the directory of a group, then the directories of its ancestors up to the mount point ``top``."""
    yield directory
    while directory != top and top in directory.parents:
        directory = directory.parent
        yield directory


def read_cgroup_mounts(proc: str = "/proc") -> list[CgroupMount]:
    """Return this process's cgroup mounts. Raises OSError."""
    return parse_cgroup_mounts(Path(f"{proc}/self/mountinfo").read_text("utf-8", "surrogateescape"))


def read_cgroup_membership(pid: int | str = "self", proc: str = "/proc") -> Mapping[str, str]:
    """Return a process's groups, keyed by controller. Raises OSError."""
    return parse_cgroup_membership(Path(f"{proc}/{pid}/cgroup").read_text("utf-8", "surrogateescape"))


def cgroup_subtree(directory: Path) -> list[Path]:
    """Return the directories of a group and its descendants. Raises OSError if the group doesn't exist."""
    directory.stat()
    return [Path(folder) for folder, _, _ in os.walk(directory)]
