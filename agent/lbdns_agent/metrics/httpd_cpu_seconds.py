"""httpd_cpu_seconds: the CPU time used so far by the web server's cgroup or, if it has none, by its process tree."""

from __future__ import annotations

from typing import Final

from lbdns_agent.sensor import MeasuredHost, Sensor, newest_value
from lbdns_agent.webserver.monitored_web_server import monitored


def read(host: MeasuredHost) -> float:
    return monitored(host.web).cpu_seconds()


SENSOR: Final = Sensor("processes of the web server", read, newest_value("httpd_cpu_seconds"))
