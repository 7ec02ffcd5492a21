"""The name of a run, which its network namespace and its control groups have."""

from __future__ import annotations

import os
from typing import Final

PREFIX: Final = "lbdns-machines-"


def run_name() -> str:
    """Return the name of this process's run; it contains the process ID, so that a later run finds what is left."""
    return f"{PREFIX}{os.getpid()}"
