"""Ports that are free now, for programs that need theirs named before they start."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

#: Outside the range the kernel hands out by itself (32768 to 60999), so that no client's port gets in the way
_FIRST, _LAST = 20_000, 32_000
#: What this process was given, locked to its end: a port is not taken yet when its program has not started yet
_held: dict[int, IO[str]] = {}


def free_ports(count: int) -> list[int]:
    """Different ports that no socket of this machine uses on IPv4, TCP or UDP, nor any other test will be given."""
    folder = Path(tempfile.gettempdir(), f"lbdns-test-ports-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    chance = random.Random(os.urandom(8))
    found: list[int] = []
    while len(found) < count:
        port = chance.randrange(_FIRST, _LAST)
        if port not in _held and _is_free(port) and _hold(folder / str(port), port):
            found.append(port)
    return found


def _hold(path: Path, port: int) -> bool:
    """Lock the file that stands for a port; whether no other test process has."""
    file = open(path, "w", encoding="ascii")  # noqa: SIM115  # closed by the end of the process
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return False
    _held[port] = file
    return True


def _is_free(port: int) -> bool:
    with contextlib.ExitStack() as sockets:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                sockets.enter_context(socket.socket(socket.AF_INET, kind)).bind(("0.0.0.0", port))
            except OSError:
                return False
    return True
