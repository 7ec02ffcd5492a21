"""Checks that no other user can replace a folder in which root writes files."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from lbdns_shared.errors import LbdnsError

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class UntrustedFolderError(LbdnsError):
    """Raised if another user can replace a folder in which root is to write."""


def trusted_folder(folder: Path, instead: str) -> Path:
    """Return the real path of ``folder``, in which this process can safely create a folder of its own.

    If the process is root, the folder and every folder above it must belong to root, and no other user may write to
    them unless they have the sticky bit. Otherwise another user could replace a new folder with a symbolic link, so
    that root would overwrite another file. Use only the returned path: another user may be able to change a symbolic
    link in ``folder``. Raises UntrustedFolderError, whose message ends with ``instead``, or OSError.
    """
    real = folder.resolve(strict=True)
    if os.geteuid() == 0:
        for each in (real, *real.parents):
            if why := _why_not(each.lstat()):
                raise UntrustedFolderError(f"{each}: root does not write to {real}, because {why}; {instead}")
    return real


def _why_not(found: os.stat_result) -> str:
    if found.st_uid != 0:
        return f"user ID {found.st_uid} owns this folder and could make root overwrite another file"
    if found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
        return (
            f"other users may write to this folder (mode {stat.S_IMODE(found.st_mode):04o}) and could make root "
            "overwrite another file"
        )
    return ""
