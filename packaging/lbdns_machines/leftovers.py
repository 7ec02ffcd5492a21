"""Finds and removes what earlier runs left on the host because they were killed with SIGKILL.

The names of network namespaces, control groups and temporary folders contain the process ID of the run that made them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from lbdns_machines.control_groups import own_group_folders, remove_groups
from lbdns_machines.machine_network import delete_namespace
from lbdns_machines.run_names import PREFIX
from lbdns_packaging.program_runs import TEMPORARY_PREFIX, remove_folder

NAMESPACES: Final = Path("/run/netns")
#: Names of runs, and names of temporary folders
RUNS: Final = rf"{PREFIX}(\d+)"
TEMPORARY: Final = rf"{TEMPORARY_PREFIX}(\d+)-\w+"


def remove_leftovers(
    namespaces: Path = NAMESPACES,
    groups: Sequence[Path] | None = None,
    is_alive: Callable[[int], bool] | None = None,
    delete: Callable[[str], None] = delete_namespace,
) -> list[str]:
    """End the machines of runs whose process no longer exists, remove their namespaces and control groups, and return
    the names of these runs.

    ``groups`` are the control groups that contain those of the runs. A namespace that cannot be removed remains, and a
    message is printed.
    """
    alive = is_alive or runs_elsewhere
    parents = own_group_folders() if groups is None else groups
    found = abandoned((path.name for parent in parents for path in _entries(parent)), alive)
    remove_groups([parent / name for parent in parents for name in found])
    without_owner = abandoned((path.name for path in _entries(namespaces)), alive)
    for name in without_owner:
        try:
            delete(name)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"machines: the network namespace {name} of a killed run remains: {error}", file=sys.stderr)
    return sorted({*found, *without_owner})


def remove_temporary_folders(parent: Path | None = None, is_alive: Callable[[int], bool] | None = None) -> list[str]:
    """Remove the temporary folders of runs whose process no longer exists, and return their names. ``parent`` is the
    folder for temporary files."""
    parent = parent or Path(tempfile.gettempdir())
    found = abandoned((path.name for path in _entries(parent)), is_alive or runs_elsewhere, TEMPORARY)
    for name in found:
        remove_folder(parent / name)
    return found


def abandoned(names: Iterable[str], is_alive: Callable[[int], bool], pattern: str = RUNS) -> list[str]:
    """Return those of ``names`` that a run gave, whose process no longer exists. The group of ``pattern`` is the
    process ID."""
    owned = {name: re.fullmatch(pattern, name) for name in names}
    return sorted(name for name, owner in owned.items() if owner and not is_alive(int(owner[1])))


def runs_elsewhere(process: int) -> bool:
    """Return whether ``process`` is the ID of a process other than this one, which has made nothing yet."""
    return process != os.getpid() and Path(f"/proc/{process}").exists()


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []
