"""Where a control group is in the file system, by /proc/PID/mountinfo and /proc/PID/cgroup. Parsing is pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: The name of the one hierarchy of version 2 where version 1 has a controller's name.
UNIFIED: Final = ""


@dataclass(frozen=True, slots=True)
class Mount:
    """One mounted hierarchy: ``controllers`` is {UNIFIED} for version 2; ``root`` is the group mounted there."""

    point: Path
    root: str
    controllers: frozenset[str]


def parse_mounts(text: str) -> list[Mount]:
    """The cgroup mounts in a mountinfo file (proc_pid_mountinfo(5))."""
    found = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if not separator or len(fields) < 5 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        controllers = {UNIFIED} if kind[0] == "cgroup2" else set(kind[-1].split(","))
        found.append(Mount(Path(_unescape(fields[4])), _unescape(fields[3]), frozenset(controllers)))
    return found


def parse_membership(text: str) -> dict[str, str]:
    """The group of a process by controller, UNIFIED for version 2 (cgroups(7), /proc/PID/cgroup)."""
    found = {}
    for line in text.splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3:
            for controller in fields[1].split(","):
                found[controller] = fields[2]
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def directory_of(mounts: Iterable[Mount], controller: str, path: str) -> tuple[Path, Path] | None:
    """The directory of group ``path`` in a controller's hierarchy, and the mount point; None if it isn't there."""
    for mount in mounts:
        if controller not in mount.controllers:
            continue
        relative = path
        if mount.root != "/":
            if path != mount.root and not path.startswith(mount.root + "/"):
                # A container that sees only its own part of the tree: the mount point is its group
                relative = ""
            else:
                relative = path[len(mount.root) :]
        if ".." in relative.split("/"):
            relative = ""
        directory = mount.point / relative.strip("/")
        if directory.is_dir():
            return directory, mount.point
    return None


def upwards(directory: Path, top: Path) -> Iterator[Path]:
    """A group and its ancestors as far as they are mounted, the group first."""
    yield directory
    while directory != top and top in directory.parents:
        directory = directory.parent
        yield directory


def read_mounts(proc: str = "/proc") -> list[Mount]:
    """This process's cgroup mounts. Raises OSError."""
    return parse_mounts(Path(f"{proc}/self/mountinfo").read_text("utf-8", "surrogateescape"))


def read_membership(pid: int | str = "self", proc: str = "/proc") -> Mapping[str, str]:
    """The groups of a process. Raises OSError."""
    return parse_membership(Path(f"{proc}/{pid}/cgroup").read_text("utf-8", "surrogateescape"))


def subtree(directory: Path) -> list[Path]:
    """A group and all below it. Raises OSError when it isn't there."""
    directory.stat()
    return [Path(folder) for folder, _, _ in os.walk(directory)]
