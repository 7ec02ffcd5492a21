"""Control groups for the machines: each systemd needs one of its own, since two in one group would stop each other."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from lbdns_machines.run_names import run_name

_ROOT: Final = Path("/sys/fs/cgroup")
_TRIES: Final = 50
_PAUSE: Final = 0.1  # seconds between two tries


def own_groups(listing: str, root: Path = _ROOT) -> list[Path]:
    """Return the folders of the control groups in which systemd has placed this process. ``listing`` is the text of
    /proc/self/cgroup.

    A host with only the unified hierarchy has one such folder. A host that also has the older hierarchies has two.
    """
    found = []
    for line in listing.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "name=systemd":
            found.append(root / "systemd" / path.lstrip("/"))
        elif not controllers:
            unified = root / "unified"
            found.append((unified if unified.is_dir() else root) / path.lstrip("/"))
    return found


def own_group_folders() -> list[Path]:
    """Return the folders of this process's control groups that systemd uses. Raises OSError if the host has none."""
    return own_groups(Path("/proc/self/cgroup").read_text())


class ControlGroups:
    """The control groups of all machines that this process boots, below the process's own control groups. Raises
    OSError if they cannot be made."""

    def __init__(self) -> None:
        self._folders = [folder / run_name() for folder in own_group_folders()]

    def make(self, machine: str) -> list[Path]:
        """Make the groups of a machine; return their ``cgroup.procs`` files: a process that writes its ID to one joins
        that group."""
        folders = [folder / machine for folder in self._folders]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        return [folder / "cgroup.procs" for folder in folders]

    def remove(self) -> None:
        """Remove all groups, and kill the processes in them."""
        remove_groups(self._folders)


def remove_groups(tops: Sequence[Path], kill: Callable[[int, int], None] = os.kill) -> None:
    """Kill the processes in the groups ``tops`` and in all groups below them, and remove the groups.

    A process that has just been killed may remain in a group for a moment, so failures are retried for some seconds.
    """
    for _ in range(_TRIES):
        for folder in [folder for top in tops for folder, _, _ in os.walk(top, topdown=False)]:
            for process in _processes(Path(folder)):
                with suppress(ProcessLookupError):
                    kill(process, signal.SIGKILL)
            with suppress(OSError):
                os.rmdir(folder)
        if not any(top.exists() for top in tops):
            return
        time.sleep(_PAUSE)


def _processes(group: Path) -> list[int]:
    """Return the IDs of the processes in ``group`` that this process can see: the kernel lists others as 0."""
    with suppress(OSError):
        return [process for word in (group / "cgroup.procs").read_text().split() if (process := int(word)) > 0]
    return []
