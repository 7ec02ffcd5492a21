"""Finds the processes that own a socket, such as the web server's listening socket.

The search visits the open files of all processes and takes milliseconds, so it runs rarely, not for each sample.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from lbdns_agent.kernel_files import read_once
from lbdns_agent.process_stat import read_process_stat

_MANAGERS = (b"systemd", b"init")  # they own the sockets of services that they start on demand


def process_sockets(proc: str, pid: int) -> set[int]:
    """Return the inodes of a process's sockets. Raises OSError if this process isn't permitted to see them."""
    found = set()
    folder = f"{proc}/{pid}/fd"
    for name in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{name}")
        except OSError:
            continue  # closed in the meantime
        if target.startswith("socket:["):
            found.add(int(target[8:-1]))
    return found


def find_socket_owners(proc: str, inodes: Collection[int]) -> tuple[int, ...]:
    """Return the topmost owners of the sockets (``inodes``); empty if this process isn't permitted to see any.

    A web server's children inherit its sockets, so only an owner whose parent is not an owner counts.
    """
    owners = {pid for pid in _processes(proc) if _owns(proc, pid, inodes)}
    if len(owners) > 1 and 1 in owners and _name(proc, 1) in _MANAGERS:
        owners.discard(1)
    return tuple(sorted(pid for pid in owners if (stat := read_process_stat(proc, pid)) and stat.parent not in owners))


def descends_from(proc: str, pid: int, roots: Collection[int]) -> bool:
    """Return whether ``pid`` is one of ``roots`` or descends from one; True if it has ended."""
    while pid not in roots:
        stat = read_process_stat(proc, pid)
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
        return not process_sockets(proc, pid).isdisjoint(inodes)
    except OSError:
        return False


def _name(proc: str, pid: int) -> bytes:
    try:
        return read_once(f"{proc}/{pid}/comm").strip()
    except OSError:
        return b""
