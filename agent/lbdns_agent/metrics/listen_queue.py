"""listen_queue: the number of connections waiting to be accepted, across all listening sockets of the web server."""

from __future__ import annotations

from typing import Final

from lbdns_agent.sensor import MeasuredHost, MetricValues, Sensor, newest_value
from lbdns_agent.webserver.monitored_web_server import monitored


def read(host: MeasuredHost) -> int:
    return monitored(host.web).listen_queue()


def quick_read(host: MeasuredHost) -> MetricValues:
    """Return no metric if sock_diag isn't available, because reading the whole connection table is too expensive."""
    return {"listen_queue": float(read(host))} if host.web is not None and host.web.sockets.cheap else {}


SENSOR: Final = Sensor("listening sockets", read, newest_value("listen_queue"), momentary=True, quick_read=quick_read)
