"""httpd_cpu_seconds: CPU seconds of the web server and all that it started (CGI), cumulative."""

from __future__ import annotations

from typing import Final

from lbdns_agent.absent import SwitchedOffError
from lbdns_agent.host import Host
from lbdns_agent.sensor import Sensor, Values


def read(host: Host) -> float:
    """Raises AbsentError, OSError."""
    if host.web is None:
        raise SwitchedOffError("switched off by --server-status off")
    return host.web.cpu_seconds()


def values(before: float | None, now: float, seconds: float) -> Values:
    return {"httpd_cpu_seconds": now}


SENSOR: Final = Sensor("processes of the web server", read, values)
