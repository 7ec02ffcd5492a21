"""Checks that the demo's ports are free before the demo starts any process."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lbdns.demo.farm_files import LOOPBACK, LOOPBACK6, DemoPlan
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ListenError


@dataclass(frozen=True, slots=True)
class RequiredPort:
    """A port that the demo needs, its purpose, and the option with which a user can choose another port."""

    endpoint: Endpoint
    kind: socket.SocketKind
    purpose: str
    flag: str


def required_ports(plan: DemoPlan) -> Iterator[RequiredPort]:
    dns = Endpoint(LOOPBACK, plan.dns_port)
    yield RequiredPort(dns, socket.SOCK_DGRAM, "DNS over UDP", "--dns-port")
    yield RequiredPort(dns, socket.SOCK_STREAM, "DNS over TCP", "--dns-port")
    yield RequiredPort(Endpoint(LOOPBACK, plan.report_port), socket.SOCK_DGRAM, "reports", "--report-port")
    yield RequiredPort(Endpoint(LOOPBACK, plan.http_port), socket.SOCK_STREAM, "the page", "--http-port")
    for host in plan.hosts:
        for endpoint in plan.web_endpoints(host):
            yield RequiredPort(endpoint, socket.SOCK_STREAM, f"web server {host.name}", "--web-port")


def has_ipv6_loopback() -> bool:
    """Return whether this machine has the IPv6 loopback address ::1. Many containers have no IPv6 loopback address."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind((LOOPBACK6, 0))
    except OSError:
        return False
    return True


def check(required: Iterable[RequiredPort]) -> None:
    """Raise a ListenError that lists all unavailable ports, and all ports that were chosen for two purposes."""
    findings = []
    with contextlib.ExitStack() as held:
        for port in required:
            address = port.endpoint.host, port.endpoint.port
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            try:
                if port.kind == socket.SOCK_STREAM:
                    # With SO_REUSEADDR, as in servers: connections from an earlier demo do not block its ports
                    held.enter_context(socket.create_server(address, family=family))
                else:
                    held.enter_context(socket.socket(family, port.kind)).bind(address)
            except OSError as error:
                findings.append(_finding(port, error))
    if findings:
        raise ListenError("\n".join(findings))


def _finding(port: RequiredPort, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            what = f"is in use; stop the program that uses this port, or choose another port with {port.flag}"
        case errno.EACCES:
            what = f"is not permitted for this user; choose port 1024 or higher with {port.flag}"
        case errno.EADDRNOTAVAIL:
            what = "is not an address of this machine; the demo requires the loopback network 127.0.0.0/8"
        case _:
            what = f"is not available: {os.strerror(error.errno or 0)}"
    return f"{port.endpoint} ({port.purpose}): {what}"
