"""Counts established TCP connections between a server and a client in the kernel's tables."""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path
from typing import Final

#: The calling thread's view, which is that of its network namespace; /proc/net is the view of the main thread
TABLES: Final = (Path("/proc/thread-self/net/tcp"), Path("/proc/thread-self/net/tcp6"))
_ESTABLISHED: Final = "01"  # net/tcp_states.h
_FIELDS: Final = 4  # number, local address, remote address, state


def established_connections(server: str, port: int, client: str) -> int:
    """Return the number of connections that the IPv4 address ``client`` has established to ``server:port``.

    A connection counts as soon as its handshake is complete, even if the server has not accepted it yet. Raises
    OSError.
    """
    count = 0
    for table in TABLES:
        with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
            count += count_established(table.read_text("ascii"), server, port, client)
    return count


def count_established(table: str, server: str, port: int, client: str) -> int:
    """Count connections in the text of /proc/net/tcp or /proc/net/tcp6 (proc_net_tcp.rst).

    The table may contain IPv4 addresses in IPv4-mapped form.
    """
    local, remote = f"{_hexadecimal(server)}:{port:04X}", _hexadecimal(client)
    count = 0
    for line in table.splitlines()[1:]:
        words = line.split(maxsplit=_FIELDS)
        if len(words) < _FIELDS or words[3] != _ESTABLISHED:
            continue
        count += words[1].endswith(local) and words[2].rpartition(":")[0].endswith(remote)
    return count


def _hexadecimal(address: str) -> str:
    """Return an IPv4 address as the kernel prints it: one number in the byte order of the processor."""
    (number,) = struct.unpack("=I", socket.inet_aton(address))
    return f"{number:08X}"
