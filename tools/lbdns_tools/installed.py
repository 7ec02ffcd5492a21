"""Programs that the tools run and that the machine may not have."""

from __future__ import annotations

import os
import shutil
from typing import Final

from lbdns.errors import LbdnsError

#: Servers live where an ordinary user's PATH doesn't look
_SYSTEM_FOLDERS: Final = "/usr/local/sbin:/usr/sbin:/sbin"


def is_there(name: str) -> bool:
    """Whether a program is installed."""
    return find(name) is not None


def find(name: str) -> str | None:
    """The path of a program, None where it isn't installed."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_FOLDERS}")


def path_of(name: str) -> str:
    """The path of a program. Raises LbdnsError with what brings it."""
    found = find(name)
    if found is None:
        raise LbdnsError(f"{name}: not found in PATH nor in {_SYSTEM_FOLDERS}; `make deps-lab` as root installs it")
    return found
