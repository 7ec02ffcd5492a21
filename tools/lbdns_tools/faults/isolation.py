"""Moves the program into separate network and mount namespaces, so that its ports, addresses and mounts are private.

If namespaces are not permitted, faults run on this machine's loopback interface, and faults that need mounts are
skipped.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from lbdns_tools import installed_programs

#: Set in the environment of the program that runs inside
MARK: Final = "LBDNS_FAULTS_INSIDE"
_ROOT: Final = ("unshare", "--net", "--mount")
_USER: Final = ("unshare", "--user", "--map-root-user", "--net", "--mount")
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1  # linux/sockios.h, linux/if.h
_INTERFACE: Final = struct.Struct("16sh14x")  # struct ifreq, with the flags


def enter(module: str, arguments: Sequence[str]) -> bool:
    """Replace this process with ``python -m module arguments`` in new namespaces, if that is permitted.

    Return True if this process already runs in new namespaces, or False if namespaces are not permitted.
    """
    if MARK in os.environ:
        _bring_up_loopback()
        return True
    if not installed_programs.is_there("unshare"):
        return False
    for prefix in (_ROOT,) if os.geteuid() == 0 else (_USER,):
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
            sys.stdout.flush()
            command = [*prefix, "--", sys.executable, "-m", module, *arguments]
            os.execvpe(command[0], command, {**os.environ, MARK: "1"})
    return False


def is_inside() -> bool:
    """Return whether this process runs in separate namespaces, in which mounts are permitted."""
    return MARK in os.environ


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        asked = _INTERFACE.pack(b"lo", 0)
        _, flags = _INTERFACE.unpack(fcntl.ioctl(sock, _SIOCGIFFLAGS, asked))
        fcntl.ioctl(sock, _SIOCSIFFLAGS, _INTERFACE.pack(b"lo", flags | _IFF_UP))
