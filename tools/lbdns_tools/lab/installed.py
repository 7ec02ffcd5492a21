"""Programs that the lab runs and that the machine may not have."""

from __future__ import annotations

import os
import shutil
from typing import Final

from lbdns.errors import LbdnsError

#: Servers live where an ordinary user's PATH doesn't look
_SYSTEM_FOLDERS: Final = "/usr/local/sbin:/usr/sbin:/sbin"


def is_there(name: str) -> bool:
    """Whether a program is installed."""
    return _found(name) is not None


def path_of(name: str) -> str:
    """The path of a program. Raises LbdnsError with what brings it."""
    found = _found(name)
    if found is None:
        raise LbdnsError(f"{name}: not found in PATH nor in {_SYSTEM_FOLDERS}; `make deps-lab` as root installs it")
    return found


def _found(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_FOLDERS}")
