"""Finds the external programs that the tools run. Any of them may be missing."""

from __future__ import annotations

import os
import shutil
from typing import Final

from lbdns_shared.errors import LbdnsError

#: Folders with server programs, which an ordinary user's PATH lacks
_SYSTEM_FOLDERS: Final = "/usr/local/sbin:/usr/sbin:/sbin"


def is_there(name: str) -> bool:
    """Return whether a program is installed."""
    return find(name) is not None


def find(name: str) -> str | None:
    """Return the path of a program, or None if it is not installed."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_FOLDERS}")


def path_of(name: str) -> str:
    """Return the path of a program. Raises LbdnsError with installation instructions if the program is missing."""
    found = find(name)
    if found is None:
        raise LbdnsError(f"{name}: not found in PATH or {_SYSTEM_FOLDERS}; run `make deps-lab` as root to install it")
    return found
