"""The link between an interface and the XDP program. When its last descriptor is closed, nothing of lbdns remains."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
from typing import Final

from lbdns.server.xdp import bpf_calls
from lbdns.server.xdp.kernel_errors import InterfaceBusyError, KernelError

_GET_FLAGS: Final = 0x8913  # SIOCGIFFLAGS
_GET_MTU: Final = 0x8921  # SIOCGIFMTU
_ETHTOOL: Final = 0x8946  # SIOCETHTOOL
_GET_DRIVER: Final = 0x3  # ETHTOOL_GDRVINFO
_DRIVER: Final = struct.Struct("=I32s160x")  # struct ethtool_drvinfo
_REQUEST: Final = struct.Struct("=16si20x")
_LOOPBACK: Final = 0x8  # IFF_LOOPBACK
#: Bytes of the longest answer: headers of IPv6 and UDP, a DNS header, a question, and the rest of a response
LONGEST_ANSWER: Final = 40 + 8 + 12 + 96 + 496


class ProgramLink:
    """Owns a descriptor of a link, from the constructor to ``close``. The kernel closes it if the process dies."""

    def __init__(self, fd: int, interface: int) -> None:
        """Adopt a descriptor, perhaps one that another process has sent. ``interface`` is its index."""
        self._fd = fd
        self.interface = interface

    def fileno(self) -> int:
        """Return the descriptor, which a process that takes over may get."""
        return self._fd

    def is_attached(self) -> bool:
        """Return whether the link is still attached to its interface. Raises OSError."""
        return bpf_calls.linked_interface(self._fd) == self.interface

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


def attach(program: int, interface: int, *, generic: bool | None = None) -> ProgramLink:
    """Attach a program to the interface with this index.

    ``generic`` works with every driver, but costs more per packet. None: only if the driver would lose answers. Raises
    InterfaceBusyError if another program is attached, which is never replaced, and KernelError for other reasons.
    """
    name = check_interface(interface)
    if generic is None:
        generic = loses_answers(name)
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


def check_interface(interface: int) -> str:
    """Return the name of an interface to which a program may be attached. Raises KernelError."""
    name = _name(interface)
    if _is_loopback(name):
        raise KernelError(
            f"{name} is the loopback interface, where answers in the kernel are slower than those of sockets"
        )
    mtu = _ask(name, _GET_MTU)
    if mtu < LONGEST_ANSWER:
        raise KernelError(
            f"the MTU of {name} must be at least {LONGEST_ANSWER} bytes, not {mtu}, since the kernel does not send "
            "fragments"
        )
    return name


def loses_answers(name: str) -> bool:
    """Return whether the interface's driver loses what an XDP program sends, unless the program is a generic one.

    A veth device delivers it only if the other end, usually in another network namespace, has an XDP program too.
    """
    answer = ctypes.create_string_buffer(_DRIVER.pack(_GET_DRIVER, b""), _DRIVER.size)
    request = struct.pack("=16sQ16x", name.encode(), ctypes.addressof(answer))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            fcntl.ioctl(sock, _ETHTOOL, request)
    except OSError:
        return False  # a driver that does not state its name
    driver: bytes = _DRIVER.unpack(answer.raw)[1]
    return driver.rstrip(b"\0") == b"veth"


def _name(interface: int) -> str:
    try:
        return socket.if_indextoname(interface)
    except OSError as error:
        raise KernelError(f"there is no interface with index {interface}") from error


def _is_loopback(name: str) -> bool:
    return bool(_ask(name, _GET_FLAGS) & 0xFFFF & _LOOPBACK)


def _ask(name: str, request: int) -> int:
    """Return the number with which the kernel answers a request about an interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        number: int = _REQUEST.unpack(fcntl.ioctl(sock, request, _REQUEST.pack(name.encode(), 0)))[1]
    return number
