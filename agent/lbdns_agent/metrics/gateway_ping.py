"""gateway_ping: the round trip of an ICMP echo to the default gateway, in ms."""

from __future__ import annotations

from typing import Final

from lbdns_agent.absent import SwitchedOffError
from lbdns_agent.asides import Steps
from lbdns_agent.gateway.ping import PATIENCE
from lbdns_agent.host import Host
from lbdns_agent.sensor import AsideSensor, Values


def read(host: Host) -> Steps[float]:
    """Raises AbsentError."""
    if host.pinger is None:
        raise SwitchedOffError("switched off by --gateway off")
    return (yield from host.pinger.ping())


def values(before: float | None, now: float, seconds: float) -> Values:
    return {"gateway_ping": now}


SENSOR: Final = AsideSensor("gateway", read, values, PATIENCE)
