"""Which processes own a socket: the web server, found by what it listens on.

Looking through the open files of all processes takes milliseconds, so it is done once, not per sample.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from lbdns_agent.kernel_file import read_once
from lbdns_agent.process import read_stat

_MANAGERS = (b"systemd", b"init")  # they hold the sockets of services that they start on demand


def sockets_of(proc: str, pid: int) -> set[int]:
    """The inodes of a process's sockets. Raises OSError when they may not be seen."""
    found = set()
    folder = f"{proc}/{pid}/fd"
    for name in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{name}")
        except OSError:
            continue  # closed just now
        if target.startswith("socket:["):
            found.add(int(target[8:-1]))
    return found


def find_owners(proc: str, inodes: Collection[int]) -> tuple[int, ...]:
    """The topmost processes that hold any of the sockets; empty when none may be seen.

    Children inherit the sockets of a web server's first process: of a chain of owners the highest counts.
    """
    owners = {pid for pid in _processes(proc) if _owns(proc, pid, inodes)}
    if len(owners) > 1 and 1 in owners and _name(proc, 1) in _MANAGERS:
        owners.discard(1)
    return tuple(sorted(pid for pid in owners if (stat := read_stat(proc, pid)) and stat.parent not in owners))


def is_below(proc: str, pid: int, roots: Collection[int]) -> bool:
    """Whether ``pid`` is one of ``roots`` or descends from one; True when it is gone."""
    while pid not in roots:
        stat = read_stat(proc, pid)
        if stat is None:
            return True
        if stat.parent <= 1:
            return stat.parent in roots
        pid = stat.parent
    return True


def _processes(proc: str) -> list[int]:
    return [int(name) for name in os.listdir(proc) if name.isdigit()]


def _owns(proc: str, pid: int, inodes: Collection[int]) -> bool:
    try:
        return not sockets_of(proc, pid).isdisjoint(inodes)
    except OSError:
        return False


def _name(proc: str, pid: int) -> bytes:
    try:
        return read_once(f"{proc}/{pid}/comm").strip()
    except OSError:
        return b""
