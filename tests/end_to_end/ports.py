"""Ports that are free now, for programs that need theirs named before they start."""

from __future__ import annotations

import contextlib
import os
import random
import socket

#: Outside the range the kernel hands out by itself (32768 to 60999), so that no client's port gets in the way
_FIRST, _LAST = 20_000, 32_000


def free_ports(count: int) -> list[int]:
    """Different ports that no socket of this machine uses on IPv4, TCP or UDP.

    Test workers look in different corners, because a port is free for everybody until it is taken.
    """
    chance = random.Random(f"{os.getpid()} {random.random()}")
    found: list[int] = []
    while len(found) < count:
        port = chance.randrange(_FIRST, _LAST)
        if port not in found and _is_free(port):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with contextlib.ExitStack() as sockets:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                sockets.enter_context(socket.socket(socket.AF_INET, kind)).bind(("0.0.0.0", port))
            except OSError:
                return False
    return True
