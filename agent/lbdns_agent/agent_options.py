"""The agent's options as one immutable object, and the functions that parse them. Pure."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_agent.alarm_conditions import MAX_REASON_LENGTH, AlarmCondition
from lbdns_agent.bus.bus_options import BusOptions
from lbdns_agent.gateway.default_route import Gateway
from lbdns_agent.sources.metric_definition import MetricDefinition
from lbdns_agent.webserver.status_page import StatusUrl
from lbdns_agent.webserver.web_server_options import WEB_SERVER_METRICS, WebServerOptions
from lbdns_shared.endpoint import Endpoint, parse_listen
from lbdns_shared.errors import ConfigError
from lbdns_shared.metric_catalogue import CATALOGUE, STANDARD_METRICS
from lbdns_shared.report import Report, encode

SHORTEST_INTERVAL, LONGEST_INTERVAL = 0.1, 3600.0  # seconds between two reports
DEFAULT_MAX_INTERVAL = 60.0  # seconds: the default of a collector's [collector] max_interval
LONGEST_POOL: Final = 100  # characters: a report must fit into a datagram
AUTO: Final = "auto"
OFF: Final = "off"


@dataclass(frozen=True)
class AgentOptions:
    """All options of a running agent.

    ``gateway`` is None if the gateway sensor is switched off; ``status`` is None if the status page sensor is switched
    off.
    """

    name: str
    collectors: tuple[Endpoint, ...] = ()
    interval: float = 1.0
    gateway: Gateway | str | None = AUTO
    status: StatusUrl | None = None
    key_file: Path | None = None
    cgroup: str = AUTO
    alarms: tuple[AlarmCondition, ...] = ()
    collector_urls: tuple[StatusUrl, ...] = ()  # of the collectors' HTTP interfaces
    pool: str = ""  # to join; empty: the collector decides
    agent_check: Endpoint | None = None  # where to answer HAProxy's agent checks; empty host: on all addresses
    agent_check_file: Path | None = None  # contains an administrator's order
    serve: Endpoint | None = None  # where to serve the text page
    addresses: tuple[str, ...] = ()  # of this host in the pool; empty: the address from which it sends reports
    finds_web_server: bool = False  # whether another web server than Apache at ``status`` may be measured
    web_server: WebServerOptions | None = None  # measured instead of the page at ``status``
    metrics: tuple[MetricDefinition, ...] = ()  # of the configuration file
    bus: BusOptions = BusOptions()  # where to publish reports; no servers: nowhere
    all_metrics: bool = False  # whether to report the extra metrics, too

    def metric_names(self) -> tuple[str, ...]:
        """Return the names of all metrics that reports may contain."""
        own = WEB_SERVER_METRICS[self.web_server.kind] if self.web_server else ()
        names = CATALOGUE if self.all_metrics else STANDARD_METRICS
        return tuple(dict.fromkeys((*names, *own, *(metric.name for metric in self.metrics))))


def default_name() -> str:
    """Return this host's name in lower case, without the domain."""
    return socket.gethostname().partition(".")[0].lower()


def parse_name(text: str) -> str:
    """Return a host name as it appears in reports: in lower case, without a trailing dot. Raises ValueError."""
    name = text.strip().lower().rstrip(".")
    encode(Report(name, 0, 1, 0.0, 1.0, {}))  # checks the name
    return name


def check_alarm_metrics(options: AgentOptions) -> None:
    """Raise ConfigError if an alarm condition uses a metric that the agent does not measure."""
    names = options.metric_names()
    for condition in options.alarms:
        if condition.metric not in names:
            raise ConfigError(f"argument --alarm: {condition.metric} is measured only with --metrics all")


def check_report_size(options: AgentOptions) -> None:
    """Raise ConfigError if a report with all metrics and the longest alarm reason could be too long for a datagram."""
    if not options.metrics:
        return
    report = Report(
        options.name, 2**64 - 1, 2**32, 1e9, options.interval, dict.fromkeys(options.metric_names(), 0.5), "alarm",
        "x" * MAX_REASON_LENGTH, options.pool, options.addresses,
    )  # fmt: skip
    try:
        encode(report)
    except ValueError as error:
        raise ConfigError(
            f"the metrics that the configuration file defines do not fit into a report: {error}; "
            "define fewer metrics, or give them shorter names"
        ) from None


def parse_pool(text: str) -> str:
    """Return the name of the pool to join. Raises ValueError."""
    if not 0 < len(text) <= LONGEST_POOL or not text.isprintable():
        raise ValueError(f"must be the name of a pool with at most {LONGEST_POOL} characters, not {text!r}")
    return text


def parse_address(text: str) -> str:
    """Return an address of this host in canonical form. Raises ValueError."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(f"must be an IPv4 or IPv6 address such as 192.0.2.1, not {text!r}") from None
    if address.is_unspecified or address.is_multicast or "%" in text:
        raise ValueError(f"must be an address at which clients can reach this host, not {text!r}")
    return str(address)


def parse_port(text: str, host: str = "") -> Endpoint:
    """Parse ``[ADDRESS:]PORT``, an endpoint on which the agent listens. Raises ValueError.

    If ``text`` contains no address, the endpoint's host is ``host``. An empty host means all addresses.
    """
    if text.isascii() and text.isdigit() and 0 < int(text) < 65536:
        return Endpoint(host, int(text))
    fault = f"must be PORT or ADDRESS:PORT, such as 7778 or 192.0.2.1:7778, not {text!r}"
    try:
        found = parse_listen(text, 0)
    except ValueError:
        raise ValueError(fault) from None
    if not found.port:
        raise ValueError(fault)
    return found


def parse_interval(text: str) -> float:
    """Return the number of seconds between reports. Raises ValueError."""
    try:
        interval = float(text)
    except ValueError:
        interval = 0.0
    if not SHORTEST_INTERVAL <= interval <= LONGEST_INTERVAL:
        raise ValueError(
            f"must be a number of seconds from {SHORTEST_INTERVAL:g} to {LONGEST_INTERVAL:g}, not {text!r}"
        )
    return interval


def parse_gateway(text: str) -> Gateway | str | None:
    """Parse the argument of ``--gateway``: ``auto``, ``off`` or ``ADDRESS[%INTERFACE]``.

    Returns AUTO for ``auto``, and None for ``off``.

    Raises ValueError.

    """
    if text == AUTO:
        return AUTO
    if text == OFF:
        return None
    address, _, interface = text.partition("%")
    try:
        return Gateway(str(ipaddress.ip_address(address)), interface)
    except ValueError:
        raise ValueError(f"must be 'auto', 'off' or an address such as 192.0.2.1, not {text!r}") from None
