"""Listening sockets that this process did not open: given by a service manager at start (sd_listen_fds(3)), or by the
server whose place it takes."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Final

from lbdns.config import Config
from lbdns.endpoint import Endpoint
from lbdns.errors import ConfigError
from lbdns.listening import bound_endpoint

_FIRST: Final = 3  # SD_LISTEN_FDS_START
#: What a socket is for: queries, reports, pages, orders (whose address is a path, without a port).
PURPOSES: Final = ("dns", "reports", "web", "control")


@dataclass(frozen=True, slots=True)
class Given:
    """One socket, and the address that was asked for when it was opened: its port may have been 0."""

    purpose: str
    asked: Endpoint
    sock: socket.socket


def adopt(descriptor: int) -> socket.socket:
    """The socket that a descriptor is, non-blocking and for this process alone. Raises OSError."""
    sock = socket.socket(fileno=descriptor)
    sock.setblocking(False)
    sock.set_inheritable(False)
    return sock


def activated(config: Config, environment: MutableMapping[str, str], first: int = _FIRST) -> list[Given]:
    """The sockets that the service manager opened for this process, each at its place in the configuration.

    Taken out of the environment, so that no other program takes them for its own. Raises ConfigError, naming those that
    the configuration has no use for.
    """
    told = {key: environment.pop(key, "") for key in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")}
    if told["LISTEN_PID"] != str(os.getpid()) or not told["LISTEN_FDS"].isdecimal():
        return []
    given: list[Given] = []
    strangers: list[str] = []
    for descriptor in range(first, first + int(told["LISTEN_FDS"])):
        try:
            sock = adopt(descriptor)
        except OSError:
            strangers.append(f"descriptor {descriptor}, which is no socket")
            continue
        purpose, what = _use_of(config, sock)
        if purpose:
            given.append(Given(purpose, bound_endpoint(sock), sock))
        else:
            strangers.append(what)
            sock.close()
    if strangers:
        for unused in given:
            unused.sock.close()
        raise ConfigError(
            f"{config.path}: sockets given by the service manager (LISTEN_FDS): no use for {'; '.join(strangers)}. "
            "Each must be listening at an address of [server] listen (UDP and TCP), [collector] listen (UDP) or "
            "[web] listen (TCP)"
        )
    return given


def _use_of(config: Config, sock: socket.socket) -> tuple[str, str]:
    """What a socket is for, empty if it is for nothing; and what it is, for a person."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return "", f"descriptor {sock.fileno()}, which is bound to no address and port"
    here = bound_endpoint(sock)
    kind = "UDP" if sock.type == socket.SOCK_DGRAM else "TCP"
    if not _is_ready(sock):
        return "", f"{kind} {here}, which doesn't listen"
    return _purpose(config, sock, here), f"{kind} {here}"


def _purpose(config: Config, sock: socket.socket, here: Endpoint) -> str:
    if any(same_place(here, wanted) for wanted in config.server.listen):
        return "dns"
    if sock.type == socket.SOCK_DGRAM:
        listen = () if config.collector.connect else config.collector.listen
        return "reports" if any(same_place(here, wanted) for wanted in listen) else ""
    return "web" if config.web.listen and same_place(here, config.web.listen) else ""


def _is_ready(sock: socket.socket) -> bool:
    if sock.type == socket.SOCK_DGRAM:
        return True
    return sock.type == socket.SOCK_STREAM and bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def same_place(one: Endpoint, other: Endpoint) -> bool:
    """Whether two addresses to listen on are the same, however they are written: ``::0`` is ``::``."""
    hosts = [ipaddress.ip_address(endpoint.host) for endpoint in (one, other)]
    return one.port == other.port and hosts[0] == hosts[1]
