"""Copies the tracked files into a clean folder: a build writes into its source tree, and must not use untracked
files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def source_date_epoch() -> int:
    """Return the time that every file of an artefact gets, in Unix seconds: SOURCE_DATE_EPOCH, or the last commit's."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    command = ["git", "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def version() -> str:
    """Return the version that all distributions have."""
    text = (ROOT / "agent" / "lbdns_shared" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert found, "lbdns_shared has a version"
    return found[1]


def copy_source(target: Path) -> Path:
    """Copy the tracked files, with uncommitted changes, to the new folder ``target``, and return it.

    Modes are 644 or 755, whatever the umask was at checkout.
    """
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in listing.decode().split("\0"):
        source, copy = ROOT / name, target / name
        if name and source.is_file():  # a tracked file may have been removed
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
    normalise(target, source_date_epoch())
    return target


def normalise(folder: Path, epoch: int) -> None:
    """Set the time of everything in ``folder`` to ``epoch``, and the modes to 755 (folders, executables) or 644."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def empty_folder(path: Path) -> Path:
    """Return ``path`` as a new, empty folder; whatever was there is removed."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path
