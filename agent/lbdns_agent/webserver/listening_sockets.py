"""Reads this host's listening TCP sockets, and the number of connections waiting in each accept queue.

The module uses sock_diag(7), with which the kernel visits only the listening sockets (0.02 ms). On kernels without
sock_diag, the module reads /proc/net/tcp. To produce /proc/net/tcp, the kernel scans its whole connection table (0.7 ms
with 262,144 buckets, on an idle machine).
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lbdns_agent.missing_values import MissingValueError

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h, net/tcp_states.h
NETLINK_SOCK_DIAG: Final = 4
SOCK_DIAG_BY_FAMILY: Final = 20
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
TCP_LISTEN: Final = 10
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
# Family, protocol, extensions, states; then a socket: its port, the peer's port, its address, the peer's
# address, the interface (any), and the cookie (none)
_REQUEST = struct.Struct("=BBBxI2s2s16s16xI8s")
_ANY_COOKIE: Final = b"\xff" * 8
_ONE_SECOND: Final = struct.pack("@ll", 1, 0)  # the kernel answers at once; the limit guards against surprises
_MESSAGE_LENGTH: Final = 72  # bytes of struct inet_diag_msg; attributes follow

ROW: Final = 150  # bytes of a row in /proc/net/tcp
LISTENING_ROWS: Final = (b"0A", b"03")  # before Linux 4.4, half-open connections are listed among the listening sockets


@dataclass(frozen=True)
class ListeningSocket:
    """A listening socket: its address (4 or 16 bytes in network byte order), port, accept queue length and inode."""

    address: bytes
    port: int
    queue: int
    inode: int


def parse(text: bytes) -> list[ListeningSocket]:
    """Return the listening sockets, which are listed first in /proc/net/tcp and /proc/net/tcp6 (proc_net_tcp.rst).

    Raises ValueError if ``text`` does not begin like one of these files.
    """
    found = []
    for line in text.split(b"\n")[1:]:
        fields = line.split(None, 10)
        if len(fields) < 10 or fields[3] not in LISTENING_ROWS:
            break
        if fields[3] == b"0A":
            address, _, port = fields[1].partition(b":")
            queue = int(fields[4].partition(b":")[2], 16)
            found.append(ListeningSocket(_address(address), int(port, 16), queue, int(fields[9])))
    return found


def _address(words: bytes) -> bytes:
    """Return an address in network byte order.

    The kernel prints an address as 32-bit words in this machine's byte order.
    """
    numbers = [int(words[i : i + 8], 16) for i in range(0, len(words), 8)]
    if len(numbers) not in (1, 4) or min(numbers) < 0:
        raise ValueError(f"{words!r} is not an address")
    return b"".join(number.to_bytes(4, sys.byteorder) for number in numbers)


def parse_sock_diag(answer: bytes) -> tuple[list[ListeningSocket], bool]:
    """Return two values: the sockets in one datagram of a sock_diag dump, and whether that datagram is the last. Raises
    OSError."""
    found: list[ListeningSocket] = []
    offset = 0
    while offset + _HEADER.size + 4 <= len(answer):
        length, kind, _, _, _ = _HEADER.unpack_from(answer, offset)
        if kind == NLMSG_DONE:
            return found, True
        if kind == NLMSG_ERROR:
            error = -struct.unpack_from("=i", answer, offset + _HEADER.size)[0]
            raise OSError(error, os.strerror(error))
        if kind == SOCK_DIAG_BY_FAMILY:
            if offset + _HEADER.size + _MESSAGE_LENGTH > len(answer):
                raise OSError(errno.EBADMSG, "a sock_diag message is too short")
            found.append(_from_diag(answer, offset + _HEADER.size))
        if length < _HEADER.size:
            break
        offset += (length + 3) & ~3
    return found, False


def make_request(address: bytes, port: int, flags: int, sequence: int) -> bytes:
    """Return a sock_diag request for one listening socket.

    With NLM_F_DUMP, the request asks for all listening sockets in one address family.
    """
    family = socket.AF_INET if len(address) == 4 else socket.AF_INET6
    body = _REQUEST.pack(
        family, socket.IPPROTO_TCP, 0, 1 << TCP_LISTEN, port.to_bytes(2, "big"), b"", address, 0, _ANY_COOKIE
    )
    return _HEADER.pack(_HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, flags, sequence, 0) + body


def _from_diag(answer: bytes, offset: int) -> ListeningSocket:
    """Parse one struct inet_diag_msg, in which rqueue is the length of a listening socket's accept queue."""
    length = 4 if answer[offset] == socket.AF_INET else 16
    port = int.from_bytes(answer[offset + 4 : offset + 6], "big")
    queue, _, _, inode = struct.unpack_from("=IIII", answer, offset + 56)
    return ListeningSocket(answer[offset + 8 : offset + 8 + length], port, queue, inode)


class ListeningSocketReader:
    """A reader for this host's listening sockets. ``cheap`` is True as long as sock_diag works."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._diag: socket.socket | None = None
        self._sequence = 0
        # A copy of /proc belongs to another machine, which this kernel knows nothing about
        self.cheap = proc == "/proc"

    def read_all(self) -> list[ListeningSocket]:
        """Return all listening sockets, beginning with the IPv4 sockets.

        Raises MissingValueError if neither sock_diag nor /proc/net/tcp can be read.
        """
        if self.cheap:
            try:
                return [*self._dump(socket.AF_INET), *self._dump(socket.AF_INET6)]
            except OSError:
                self.cheap = False
                self._close()
        try:
            text = read_listening(f"{self._proc}/net/tcp")
        except OSError as error:
            raise MissingValueError(
                f"neither sock_diag nor {self._proc}/net/tcp can be read: {error.strerror}"
            ) from None
        try:
            text6 = read_listening(f"{self._proc}/net/tcp6")
        except OSError:
            text6 = b""  # a kernel without IPv6
        return [*parse(text), *parse(text6)]

    def read_again(self, listeners: Sequence[ListeningSocket]) -> list[ListeningSocket] | None:
        """Look up each socket in ``listeners`` by address, and return their current states.

        Returns None if the kernel can't look up individual sockets, or if any socket in ``listeners`` has been closed.
        """
        places = {(listener.address, listener.port) for listener in listeners}
        if not self.cheap or len(places) < len(listeners):
            return None  # sockets with the same address (SO_REUSEPORT) can't be distinguished
        found = []
        for listener in listeners:
            try:
                now, _ = self._ask(listener.address, listener.port, NLM_F_REQUEST)
            except OSError:
                self._close()
                return None
            if len(now) != 1 or now[0].inode != listener.inode:
                return None
            found += now
        return found

    def _dump(self, family: int) -> list[ListeningSocket]:
        found, done = self._ask(bytes(4 if family == socket.AF_INET else 16), 0, NLM_F_REQUEST | NLM_F_DUMP)
        assert self._diag is not None
        while not done:
            part, done = parse_sock_diag(self._diag.recv(65_536))
            found += part
        return found

    def _ask(self, address: bytes, port: int, flags: int) -> tuple[list[ListeningSocket], bool]:
        if self._diag is None:
            self._diag = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG)
            self._diag.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _ONE_SECOND)
        self._sequence += 1
        self._diag.send(make_request(address, port, flags, self._sequence))
        return parse_sock_diag(self._diag.recv(65_536))

    def _close(self) -> None:
        if self._diag is not None:
            self._diag.close()
            self._diag = None


def read_listening(path: str) -> bytes:
    """Return the beginning of /proc/net/tcp, which lists all listening sockets. Raises OSError.

    The rest of the file is not read, because it lists thousands of connections on a busy server.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = b""
        while part := os.read(fd, 4096 // ROW * ROW):
            text += part
            last = text[: text.rfind(b"\n")].rpartition(b"\n")[2].split(None, 4)
            if len(last) > 3 and last[3] not in (*LISTENING_ROWS, b"st"):
                break
        return text
    finally:
        os.close(fd)
