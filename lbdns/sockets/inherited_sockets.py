"""Listening sockets that this process inherits from a service manager (sd_listen_fds(3)) or from its predecessor."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.config import Config
from lbdns.sockets.binding import bound_endpoint
from lbdns.sockets.socket_store import forget, stored_name
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ConfigError

_FIRST: Final = 3  # SD_LISTEN_FDS_START
#: DNS queries, reports, the web interface, and the control socket, whose address is a path without a port.
PURPOSES: Final = ("dns", "reports", "web", "control")


@dataclass(frozen=True, slots=True)
class InheritedSocket:
    """An inherited socket, with its purpose and the address for which it was opened; the port may be 0."""

    purpose: str
    asked: Endpoint
    sock: socket.socket


def adopt(descriptor: int) -> socket.socket:
    """Return a non-blocking, non-inheritable socket for a file descriptor. Raises OSError."""
    sock = socket.socket(fileno=descriptor)
    sock.setblocking(False)
    sock.set_inheritable(False)
    return sock


def sockets_from_service_manager(
    config: Config, environment: MutableMapping[str, str], first: int = _FIRST, *, serves_dns: bool = True
) -> list[InheritedSocket]:
    """Return the sockets that the service manager opened for this process, or has stored since this program's last run.

    The variables that announce the sockets are removed from ``environment``, so that no child process uses them. Stored
    sockets that the configuration does not use are closed. If ``serves_dns`` is false, the program uses no DNS sockets.
    Raises ConfigError if the service manager passed anything else that the configuration does not use.
    """
    variables = {key: environment.pop(key, "") for key in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")}
    if variables["LISTEN_PID"] != str(os.getpid()) or not variables["LISTEN_FDS"].isdecimal():
        return []
    found: list[InheritedSocket] = []
    unknown: list[str] = []
    names = dict(enumerate(variables["LISTEN_FDNAMES"].split(":"), first))
    for descriptor in range(first, first + int(variables["LISTEN_FDS"])):
        try:
            sock = adopt(descriptor)
        except OSError:
            unknown.append(f"descriptor {descriptor}, which is not a socket")
            continue
        purpose, what = _use_of(config, sock, serves_dns)
        if purpose:
            found.append(InheritedSocket(purpose, bound_endpoint(sock), sock))
        else:
            if names.get(descriptor) == stored_name(sock):
                forget(sock, environment)
            else:
                unknown.append(what)
            sock.close()
    if unknown:
        for unused in found:
            unused.sock.close()
        raise ConfigError(
            f"{config.path}: the service manager passed sockets (LISTEN_FDS) that the configuration does not use: "
            f"{'; '.join(unknown)}. Each socket must listen on an address in "
            f"{'[server] listen (UDP and TCP), ' if serves_dns else ''}[collector] listen (UDP) or [web] listen (TCP)"
        )
    return found


def _use_of(config: Config, sock: socket.socket, serves_dns: bool) -> tuple[str, str]:
    """Return two values: a socket's purpose (empty if the configuration does not use it), and its description for
    messages."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return "", f"descriptor {sock.fileno()}, which is not bound to an address and port"
    here = bound_endpoint(sock)
    kind = "UDP" if sock.type == socket.SOCK_DGRAM else "TCP"
    if sock.type != socket.SOCK_DGRAM and not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return "", f"{kind} {here}, which is not listening"
    uses = {"dns": config.server.listen if serves_dns else ()}
    if kind == "TCP":
        uses["web"] = (config.web.listen,) if config.web.listen else ()
    elif not config.collector.connect:
        uses["reports"] = config.collector.listen
    purposes = [purpose for purpose, listen in uses.items() if any(same_address(here, each) for each in listen)]
    return purposes[0] if purposes else "", f"{kind} {here}"


def same_address(one: Endpoint, other: Endpoint) -> bool:
    """Return whether two addresses are equal, regardless of their notation (``::0`` equals ``::``)."""
    hosts = [ipaddress.ip_address(endpoint.host) for endpoint in (one, other)]
    return one.port == other.port and hosts[0] == hosts[1]


def by_address(
    inherited: Sequence[InheritedSocket], purpose: str, wanted: Sequence[Endpoint]
) -> dict[Endpoint, socket.socket]:
    """Return the sockets for a purpose, keyed by configured address."""
    return {
        endpoint: each.sock
        for each in inherited
        if each.purpose == purpose
        for endpoint in wanted
        if same_address(each.asked, endpoint)
    }


def take_one(inherited: Sequence[InheritedSocket], purpose: str, wanted: Endpoint | None) -> socket.socket | None:
    """Return the socket with this purpose and the address ``wanted``; close all other sockets with this purpose."""
    taken = None
    for each in inherited:
        if each.purpose == purpose and each.asked == wanted:
            taken = each.sock
        elif each.purpose == purpose:
            each.sock.close()
    return taken
