"""gateway_ping: the round-trip time (ms) between this host and its gateway, measured with an ICMP echo request."""

from __future__ import annotations

from typing import Final

from lbdns_agent.gateway.gateway_pinger import TIMEOUT
from lbdns_agent.missing_values import LINUX_ONLY, SwitchedOffError
from lbdns_agent.non_blocking_sensors import ReadingSteps
from lbdns_agent.sensor import MeasuredHost, NonBlockingSensor, newest_value


def read(host: MeasuredHost) -> ReadingSteps[float]:
    if host.pinger is None:
        raise SwitchedOffError("switched off by --gateway off" if host.psutil is None else LINUX_ONLY)
    return (yield from host.pinger.ping())


SENSOR: Final = NonBlockingSensor("gateway", read, newest_value("gateway_ping"), TIMEOUT)
