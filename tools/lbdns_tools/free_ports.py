"""Finds free ports for programs whose ports must be known before they start."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path
from typing import IO

#: Outside the kernel's range of ephemeral ports (32768 to 60999), so that no client takes one of them
_FIRST, _LAST = 20_000, 32_000
#: Ports that callers in this process have received; such a port looks free until its program starts
_held: set[int] = set()


def free_ports(count: int) -> list[int]:
    """Return distinct ports that are free for TCP and UDP over IPv4 and that no other caller receives."""
    chance = random.Random(os.urandom(8))
    found: list[int] = []
    while len(found) < count:
        port = chance.randrange(_FIRST, _LAST)
        if port not in _held and _is_free(port) and _hold(port):
            _held.add(port)
            found.append(port)
    return found


def free_port() -> int:
    return free_ports(1)[0]


@cache
def _register() -> IO[bytes]:
    """Open this user's lock file, which has one byte per port and stays open until the process exits."""
    return open(Path(tempfile.gettempdir(), f"lbdns-ports-{os.getuid()}"), "ab")


def _hold(port: int) -> bool:
    """Lock the byte for ``port`` until the process exits. Return False if another process holds the lock."""
    try:
        fcntl.lockf(_register(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):  # fcntl(2) allows either error
        return False
    return True


def _is_free(port: int) -> bool:
    with contextlib.ExitStack() as sockets:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                sockets.enter_context(socket.socket(socket.AF_INET, kind)).bind(("0.0.0.0", port))
            except OSError:
                return False
    return True
