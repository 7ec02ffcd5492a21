"""What the command line says, as one frozen value; and the readers of its words. Pure."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path

from lbdns.endpoint import Endpoint
from lbdns.report import Report, encode
from lbdns_agent.gateway.route import Gateway
from lbdns_agent.overload import Condition
from lbdns_agent.webserver.url import StatusUrl

SHORTEST, LONGEST = 0.1, 3600.0  # seconds between two reports
AUTO, OFF = "auto", "off"


@dataclass(frozen=True, slots=True)
class Options:
    """Everything the agent was told. ``gateway`` and ``status`` are None when switched off."""

    name: str
    collectors: tuple[Endpoint, ...] = ()
    interval: float = 1.0
    gateway: Gateway | str | None = AUTO
    status: StatusUrl | None = None
    key_file: Path | None = None
    cgroup: str = AUTO
    alarms: tuple[Condition, ...] = ()


def default_name() -> str:
    """This host's name without its domain, in lower case."""
    return socket.gethostname().partition(".")[0].lower()


def parse_name(text: str) -> str:
    """A host name as reports carry it. Raises ValueError."""
    name = text.strip().lower().rstrip(".")
    encode(Report(name, 0, 1, 0.0, 1.0, {}))  # knows what a host name is
    return name


def parse_interval(text: str) -> float:
    """Seconds between two reports. Raises ValueError."""
    try:
        interval = float(text)
    except ValueError:
        interval = 0.0
    if not SHORTEST <= interval <= LONGEST:
        raise ValueError(f"{text!r} is no number of seconds from {SHORTEST:g} to {LONGEST:g}")
    return interval


def parse_gateway(text: str) -> Gateway | str | None:
    """``auto``, ``off`` (None), or an address, with the interface after % if it is link-local. Raises ValueError."""
    if text == AUTO:
        return AUTO
    if text == OFF:
        return None
    address, _, interface = text.partition("%")
    try:
        return Gateway(str(ipaddress.ip_address(address)), interface)
    except ValueError:
        raise ValueError(f"{text!r} is no address, such as 192.0.2.1, and neither 'auto' nor 'off'") from None
