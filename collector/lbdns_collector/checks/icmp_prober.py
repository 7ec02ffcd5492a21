"""Sends ICMP echo requests to members, through one socket per address family, and matches the replies."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterable
from typing import Final, NamedTuple

from lbdns.config.check_setting import CheckConfig
from lbdns_collector.checks.probe_result import PASSED, ProbeResult
from lbdns_collector.checks.probes import failure_of, family_of, no_answer
from lbdns_shared.errors import ConfigError
from lbdns_shared.icmp_echo import (
    ECHO_REQUEST_4,
    ECHO_REQUEST_6,
    HOW_TO_ALLOW,
    echo_request,
    is_echo_reply,
    open_echo_socket,
    without_ip_header,
)

PAYLOAD: Final = 16  # random bytes: only a host that saw the request can answer it
BATCH: Final = 64  # replies per wake-up, so that other tasks in this event loop can run


class _EchoSocket(NamedTuple):
    sock: socket.socket
    is_raw: bool


class _Waiting(NamedTuple):
    request: bytes
    replied: asyncio.Future[bool]


class IcmpProber:
    """A prober that sends ICMP echo requests to members. Call ``open`` before the program drops root privileges."""

    def __init__(self) -> None:
        self._sockets: dict[socket.AddressFamily, _EchoSocket] = {}
        self._waiting: dict[tuple[str, int], _Waiting] = {}  # by address and sequence number
        self._sequence = 0
        self._identifier = os.getpid() & 0xFFFF
        self._reading = False

    def open(self, addresses: Iterable[str]) -> None:
        """Open a socket for each address family in ``addresses`` that has no open socket yet. Raises ConfigError."""
        for family in {family_of(address) for address in addresses} - self._sockets.keys():
            try:
                self._sockets[family] = opened = _EchoSocket(*open_echo_socket(family))
            except PermissionError:
                raise ConfigError(f"[[pool]] check: icmp: {HOW_TO_ALLOW}, or start as root") from None
            except OSError as error:
                raise ConfigError(f"[[pool]] check: icmp: {error.strerror}") from None
            if self._reading:
                self._read(family, opened)

    def start(self) -> None:
        """Start reading replies. Call this method in the event loop."""
        self._reading = True
        for family, opened in self._sockets.items():
            self._read(family, opened)

    def close(self) -> None:
        for opened in self._sockets.values():
            if self._reading:
                asyncio.get_running_loop().remove_reader(opened.sock)
            opened.sock.close()
        self._sockets, self._reading = {}, False

    async def probe(self, address: str, check: CheckConfig) -> ProbeResult:
        """Send an echo request to ``address``, and wait for the reply."""
        loop = asyncio.get_running_loop()
        opened = self._sockets.get(family_of(address))
        if opened is None:
            return ProbeResult(None, "there is no ICMP socket")
        self._sequence = (self._sequence + 1) & 0xFFFF
        kind = ECHO_REQUEST_4 if opened.sock.family == socket.AF_INET else ECHO_REQUEST_6
        request = echo_request(kind, self._identifier, self._sequence, os.urandom(PAYLOAD))
        waiting = _Waiting(request, loop.create_future())
        key = address, self._sequence
        self._waiting[key] = waiting
        deadline = loop.time() + check.timeout
        timer = loop.call_at(deadline, _end, waiting.replied, False)
        try:
            opened.sock.sendto(request, (address, 0))
            replied = await waiting.replied
        except OSError as error:
            return failure_of(error)
        finally:
            timer.cancel()
            del self._waiting[key]
        return PASSED if replied else no_answer(loop.time(), deadline, check)

    def _read(self, family: socket.AddressFamily, opened: _EchoSocket) -> None:
        asyncio.get_running_loop().add_reader(opened.sock, self._drain, family, opened)

    def _drain(self, family: socket.AddressFamily, opened: _EchoSocket) -> None:
        for _ in range(BATCH):
            try:
                packet, source = opened.sock.recvfrom(2048)
            except BlockingIOError:
                return
            except OSError:
                continue  # an ICMP error about an earlier request, which its own time-out handles
            message = without_ip_header(packet) if opened.is_raw and family == socket.AF_INET else packet
            key = source[0].partition("%")[0], int.from_bytes(message[6:8], "big")
            waiting = self._waiting.get(key)
            if waiting and is_echo_reply(message, waiting.request, any_identifier=not opened.is_raw):
                _end(waiting.replied, True)


def _end(replied: asyncio.Future[bool], result: bool) -> None:
    if not replied.done():
        replied.set_result(result)
