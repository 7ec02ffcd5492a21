"""Checks whether this host can boot machines, which requires root, some programs, and permissions that containers
lack."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Final

#: Programs of Debian's packages mmdebstrap, systemd-container, util-linux, iproute2, openssh-client and dpkg
PROGRAMS: Final = ("mmdebstrap", "systemd-nspawn", "nsenter", "setpriv", "ip", "ssh-keygen", "dpkg-deb")


class HostError(Exception):
    """This host cannot boot machines; the message gives the reason."""


def check_host(user: int | None = None, find: Callable[[str], str | None] = shutil.which) -> None:
    """Raise HostError if the user ``user`` (a user ID, by default this process's) is not root, or if a program is
    missing."""
    if (os.geteuid() if user is None else user) != 0:
        raise HostError("booting machines needs root")
    if missing := [program for program in PROGRAMS if not find(program)]:
        raise HostError(f"{', '.join(missing)} not found: run 'make deps-packaging' as root")
