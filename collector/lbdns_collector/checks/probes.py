"""Probes that test one address of a member over TCP or HTTP, without blocking the event loop.

A probe returns a ``ProbeResult``. If a probe cannot be carried out, for example because no file descriptor is free, its
result has no effect on the member.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
from typing import Final

from lbdns import __version__
from lbdns.config.check_setting import HTTP_PORT, CheckConfig, CheckTarget
from lbdns_collector.checks.probe_result import PASSED, ProbeResult

#: This program was busy or stopped for so long after the deadline that the answer may have been missed; s
STALL: Final = 0.1
MAX_STATUS_LINE: Final = 512  # bytes
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r\n]")
#: Errors that this host causes itself: no descriptors, memory, ports, route or permission, or no such address family
OWN_ERRORS: Final = frozenset(
    {
        errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EAGAIN, errno.EADDRNOTAVAIL, errno.ENETUNREACH,
        errno.ENETDOWN, errno.EPERM, errno.EACCES, errno.EAFNOSUPPORT, errno.EINTR,
    }
)  # fmt: skip


def failure_of(error: OSError) -> ProbeResult:
    """Return the result of a probe that ended with ``error``."""
    text = (os.strerror(error.errno) if error.errno else str(error)).lower()
    return ProbeResult(None if error.errno in OWN_ERRORS else False, text)


def no_answer(now: float, deadline: float, check: CheckConfig) -> ProbeResult:
    """Return the result of a probe that has ended without an answer. ``now`` is in monotonic seconds."""
    if now > deadline + STALL:
        return ProbeResult(None, "this program was too busy to read a response in time")
    return ProbeResult(False, f"no answer within {check.timeout:g} s")


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


async def probe_tcp(address: str, port: int, check: CheckConfig) -> ProbeResult:
    """Connect to ``port`` at ``address``, and close the connection."""
    return await _probe((address, port), check, b"")


async def probe_http(address: str, target: CheckTarget, host: str, check: CheckConfig) -> ProbeResult:
    """Send a GET request for ``target`` to ``address``. The probe passes if the response has one of the status codes.

    ``host`` is the content of the Host field, without the port.
    """
    port = "" if target.port == HTTP_PORT else f":{target.port}"
    request = (
        f"GET {target.path} HTTP/1.1\r\nHost: {host}{port}\r\nUser-Agent: lbdns/{__version__} (check)\r\n"
        "Accept: */*\r\nConnection: close\r\n\r\n"
    )
    return await _probe((address, target.port), check, request.encode("ascii"))


async def _probe(address: tuple[str, int], check: CheckConfig, request: bytes) -> ProbeResult:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + check.timeout
    try:
        with socket.socket(family_of(address[0]), socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as sock:
            if not await _connect(sock, address, deadline):
                return no_answer(loop.time(), deadline, check)
            if not request:
                return PASSED
            sock.send(request)  # the first bytes of a connection fit into its buffer
            head = b""
            while b"\n" not in head and len(head) < MAX_STATUS_LINE:
                if not await _ready(sock, False, deadline):
                    return no_answer(loop.time(), deadline, check)
                piece = sock.recv(MAX_STATUS_LINE)
                if not piece:
                    break
                head += piece
            return _judge(head, check)
    except OSError as error:
        return failure_of(error)


async def _connect(sock: socket.socket, address: tuple[str, int], deadline: float) -> bool:
    """Connect. Return False if the deadline passes; raise OSError if the connection fails."""
    error = sock.connect_ex(address)
    if error == errno.EINPROGRESS:
        if not await _ready(sock, True, deadline):
            return False
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, os.strerror(error))
    return True


async def _ready(sock: socket.socket, writable: bool, deadline: float) -> bool:
    """Wait until ``sock`` is readable, or writable if ``writable`` is true. Return False if the deadline passes.

    An event loop handles ready sockets before timers, so an answer counts even if this program was too busy to read it
    in time.
    """
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[bool] = loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if writable else (loop.add_reader, loop.remove_reader)

    def end(result: bool) -> None:
        if not ready.done():
            ready.set_result(result)

    add(sock, end, True)
    timer = loop.call_at(deadline, end, False)
    try:
        return await ready
    finally:
        timer.cancel()
        remove(sock)


def _judge(head: bytes, check: CheckConfig) -> ProbeResult:
    """Return the result of an HTTP probe whose response begins with ``head``."""
    if not head:
        return ProbeResult(False, "the member closed the connection without a response")
    match = _STATUS_LINE.match(head)
    if not match:
        return ProbeResult(False, "the response is not HTTP")
    code = int(match[1])
    return PASSED if any(low <= code <= high for low, high in check.status) else ProbeResult(False, f"status {code}")
