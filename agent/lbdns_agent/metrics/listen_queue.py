"""listen_queue: connections that wait for the web server to accept them, over its listening sockets."""

from __future__ import annotations

from typing import Final

from lbdns_agent.absent import SwitchedOffError
from lbdns_agent.host import Host
from lbdns_agent.sensor import Sensor, Values


def read(host: Host) -> int:
    """Raises AbsentError, OSError."""
    if host.web is None:
        raise SwitchedOffError("switched off by --server-status off")
    return host.web.listen_queue()


def values(before: int | None, now: int, seconds: float) -> Values:
    return {"listen_queue": float(now)}


def glance(host: Host) -> Values:
    """Nothing where sock_diag isn't to be had: the whole table of connections is too dear to be watched."""
    return {"listen_queue": float(read(host))} if host.web is not None and host.web.cheap else {}


SENSOR: Final = Sensor("listening sockets", read, values, momentary=True, glance=glance)
