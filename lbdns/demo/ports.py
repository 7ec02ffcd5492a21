"""Whether the demo's ports are free, found out before anything is started."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from lbdns.demo.farm_files import LOOPBACK, LOOPBACK6, Plan
from lbdns.endpoint import Endpoint
from lbdns.errors import ListenError


@dataclass(frozen=True, slots=True)
class Wanted:
    """A port the demo will listen on, what for, and the flag that chooses another."""

    endpoint: Endpoint
    kind: socket.SocketKind
    purpose: str
    flag: str


def wanted(plan: Plan) -> Iterator[Wanted]:
    dns = Endpoint(LOOPBACK, plan.dns_port)
    yield Wanted(dns, socket.SOCK_DGRAM, "DNS over UDP", "--dns-port")
    yield Wanted(dns, socket.SOCK_STREAM, "DNS over TCP", "--dns-port")
    yield Wanted(Endpoint(LOOPBACK, plan.report_port), socket.SOCK_DGRAM, "reports", "--report-port")
    yield Wanted(Endpoint(LOOPBACK, plan.http_port), socket.SOCK_STREAM, "the page", "--http-port")
    for host in plan.hosts:
        for endpoint in plan.web_endpoints(host):
            yield Wanted(endpoint, socket.SOCK_STREAM, f"web server {host.name}", "--web-port")


def has_ipv6_loopback() -> bool:
    """Whether this machine has ::1. Containers often don't."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind((LOOPBACK6, 0))
    except OSError:
        return False
    return True


def check(plan: Plan) -> None:
    """Raises ListenError with every port that can't be had, also those that two parts of the demo both want."""
    findings = []
    with contextlib.ExitStack() as held:
        for want in wanted(plan):
            try:
                held.enter_context(_hold(want))
            except OSError as error:
                findings.append(_finding(want, error))
    if findings:
        raise ListenError("\n".join(findings))


def _hold(want: Wanted) -> socket.socket:
    family = socket.AF_INET6 if ":" in want.endpoint.host else socket.AF_INET
    probe = socket.socket(family, want.kind)
    try:
        if want.kind == socket.SOCK_STREAM:
            # As servers do: connections of a demo that has just ended don't hold its ports
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((want.endpoint.host, want.endpoint.port))
        if want.kind == socket.SOCK_STREAM:
            probe.listen(1)
    except OSError:
        probe.close()
        raise
    return probe


def _finding(want: Wanted, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            what = f"is taken; end what listens there, or choose another port with {want.flag}"
        case errno.EACCES:
            what = f"is not permitted to this user; choose a port from 1024 with {want.flag}"
        case errno.EADDRNOTAVAIL:
            what = "is no address of this machine; the demo needs all of 127.0.0.0/8 on the loopback, as Linux has it"
        case _:
            what = f"can't be had: {os.strerror(error.errno or 0)}"
    return f"{want.endpoint} ({want.purpose}): {what}"
