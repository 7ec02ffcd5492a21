"""Carries simulated agents' reports to collectors: over UDP, or over a connection to a NATS server."""

from __future__ import annotations

import select
import socket
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from lbdns_agent.bus.bus_error import BusError
from lbdns_agent.bus.bus_options import BusSecrets
from lbdns_agent.bus.bus_session import BusSession
from lbdns_agent.bus.nats_messages import publish_message
from lbdns_shared.bus_subject import report_subject
from lbdns_shared.bus_url import parse_bus_url
from lbdns_tools.bench.measured_processes import BenchmarkError

PATIENCE: Final = 30.0  # seconds that a NATS server may take to accept a connection, or to read a batch of reports
_PIECE: Final = 65536  # bytes per read


class ReportTransport(Protocol):
    """Sends reports to the collectors that should receive them."""

    def send(self, host: str, datagram: bytes) -> None:
        """Send a report of ``host``, at the latest when ``flush`` is called."""

    def flush(self) -> None:
        """Send what is waiting. Raises BenchmarkError if the connection has failed."""

    def close(self) -> None:
        """Close the sockets."""


@dataclass(frozen=True, slots=True)
class ReportTarget:
    """Where reports go: the UDP ports of the collectors, or the port of a NATS server if ``bus_port`` is not 0."""

    ports: Sequence[int] = ()
    bus_port: int = 0

    def connect(self) -> ReportTransport:
        """Return a new transport, which the caller must close. Raises BenchmarkError."""
        return BusTransport(self.bus_port) if self.bus_port else UdpTransport(self.ports)


class UdpTransport:
    """Sends each host's reports to one of several collectors on the loopback interface, always to the same one."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._targets = [("127.0.0.1", port) for port in ports]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send(self, host: str, datagram: bytes) -> None:
        self._socket.sendto(datagram, self._targets[collector_of(host, len(self._targets))])

    def flush(self) -> None:
        """No-op: no report waits."""

    def close(self) -> None:
        self._socket.close()


def collector_of(host: str, collectors: int) -> int:
    """Return the number of the collector to which ``host`` reports over UDP."""
    return zlib.crc32(host.encode()) % collectors if collectors > 1 else 0


class BusTransport:
    """Publishes the reports of all hosts over one connection to a NATS server on the loopback interface."""

    def __init__(self, port: int) -> None:
        """Connect. Raises BenchmarkError."""
        self._pending = bytearray()
        self._session = BusSession(parse_bus_url(f"nats://127.0.0.1:{port}"), BusSecrets(), "simulated agents")
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
            while not self._session.is_ready:
                self._receive()
        except (OSError, BusError) as error:
            raise BenchmarkError(f"cannot connect to the NATS server on port {port}: {error}") from None

    def send(self, host: str, datagram: bytes) -> None:
        self._pending += publish_message(report_subject("", host), datagram)

    def flush(self) -> None:
        try:
            self._socket.sendall(self._pending)
            self._pending.clear()
            if select.select([self._socket], [], [], 0)[0]:
                self._receive()
        except (OSError, BusError) as error:
            raise BenchmarkError(f"the NATS server no longer accepts reports: {error}") from None

    def close(self) -> None:
        self._socket.close()

    def _receive(self) -> None:
        """Wait for bytes from the server, and reply to its PINGs."""
        data = self._socket.recv(_PIECE)
        if not data:
            raise BusError("the server closed the connection")
        if "refused" in self._session.receive(data) or self._session.refusal:
            raise BusError(self._session.refusal)
        self._socket.sendall(self._session.outgoing)
        self._session.outgoing.clear()
