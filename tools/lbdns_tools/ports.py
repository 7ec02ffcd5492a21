"""Ports that are free now, for programs that need theirs named before they start."""

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

#: Outside the range the kernel hands out by itself (32768 to 60999), so that no client's port gets in the way
_FIRST, _LAST = 20_000, 32_000
#: What this process was given: a port is not taken yet while its program has not started
_held: set[int] = set()


def free_ports(count: int) -> list[int]:
    """Different ports that no socket of this machine uses on IPv4, TCP or UDP; nobody else who asks is given them."""
    chance = random.Random(os.urandom(8))
    found: list[int] = []
    while len(found) < count:
        port = chance.randrange(_FIRST, _LAST)
        if port not in _held and _is_free(port) and _hold(port):
            _held.add(port)
            found.append(port)
    return found


def free_port() -> int:
    """One of ``free_ports``."""
    return free_ports(1)[0]


@cache
def _register() -> IO[bytes]:
    """One file for all processes of this user, in which each port has a byte to lock; open until this one ends."""
    return open(Path(tempfile.gettempdir(), f"lbdns-ports-{os.getuid()}"), "ab")


def _hold(port: int) -> bool:
    """Lock the byte of a port to the end of this process; whether no other process has."""
    try:
        fcntl.lockf(_register(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):  # either may be raised, fcntl(2)
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
