"""The link between an interface and the XDP program. When its last descriptor is closed, nothing of lbdns remains."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from typing import Final

from lbdns.server.xdp import bpf_calls
from lbdns.server.xdp.kernel_errors import InterfaceBusyError, KernelError

_GET_FLAGS: Final = 0x8913  # SIOCGIFFLAGS
_REQUEST: Final = struct.Struct("16sh22x")
_LOOPBACK: Final = 0x8  # IFF_LOOPBACK


class ProgramLink:
    """Owns a descriptor of a link, from the constructor to ``close``. The kernel closes it if the process dies."""

    def __init__(self, fd: int, interface: int) -> None:
        """Adopt a descriptor, perhaps one that another process has sent. ``interface`` is its index."""
        self._fd = fd
        self.interface = interface

    def fileno(self) -> int:
        """Return the descriptor, which a process that takes over may get."""
        return self._fd

    def replace(self, program: int) -> None:
        """Replace the program, and thereby its tables, in one step. Raises KernelError."""
        try:
            bpf_calls.update_link(self._fd, program)
        except OSError as error:
            raise KernelError(
                f"cannot replace the XDP program of interface {self.interface}: {error.strerror}"
            ) from error

    def close(self) -> None:
        """Close the descriptor. The program is detached, unless another process has a descriptor too."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def attach(program: int, interface: int, *, generic: bool = False) -> ProgramLink:
    """Attach a program to the interface with this index.

    ``generic`` works with every driver, but costs more per packet. Raises InterfaceBusyError if another program is
    attached, which is never replaced, and KernelError for other reasons.
    """
    name = _name(interface)
    if _is_loopback(name):
        raise KernelError(
            f"{name} is the loopback interface, where answers in the kernel are slower than those of sockets"
        )
    try:
        return ProgramLink(bpf_calls.attach_xdp(program, interface, generic=generic), interface)
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.EEXIST):
            raise InterfaceBusyError(
                f"another XDP program is attached to {name}; lbdns leaves it there and answers with sockets "
                f"('ip link show {name}' shows its number)"
            ) from error
        reason = error.strerror
        if error.errno in (errno.EOPNOTSUPP, errno.EINVAL) and not generic:
            reason = f"its driver does not support XDP programs ({error.strerror})"
        raise KernelError(f"cannot attach the XDP program to {name}: {reason}") from error


def _name(interface: int) -> str:
    try:
        return socket.if_indextoname(interface)
    except OSError as error:
        raise KernelError(f"there is no interface with index {interface}") from error


def _is_loopback(name: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        flags = _REQUEST.unpack(fcntl.ioctl(sock, _GET_FLAGS, _REQUEST.pack(name.encode(), 0)))[1]
    return bool(flags & _LOOPBACK)
