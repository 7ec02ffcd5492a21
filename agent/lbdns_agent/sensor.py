"""Defines a sensor: how to read one source of data about the host, and how to compute metrics from two readings.

The sources are the kernel's files or psutil, the limiting cgroup, the web server and the gateway.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, Union

from lbdns_agent.agent_options import AgentOptions
from lbdns_agent.background_resolver import BackgroundResolver
from lbdns_agent.cgroup.find_cgroup import find_cgroup
from lbdns_agent.cgroup.limiting_cgroup import LimitingCgroup
from lbdns_agent.gateway.default_route import Gateway, find_gateway
from lbdns_agent.gateway.gateway_pinger import GatewayPinger
from lbdns_agent.kernel_files import ProcFiles
from lbdns_agent.non_blocking_sensors import ReadingSteps
from lbdns_agent.webserver.monitored_web_server import MonitoredWebServer
from lbdns_agent.webserver.status_page import ServerStatusPage, packed_addresses
from lbdns_shared.errors import LbdnsError

T = TypeVar("T")

#: Maps each metric to its number, or to a text that tells an administrator why the metric has none. A metric that
#: is not in the map needs another reading: the first sample has no differences.
MetricValues = Mapping[str, Union[float, str]]


@dataclass(frozen=True)
class MeasuredHost:
    """The data sources of one host, which the sensors read. If a source doesn't exist or is switched off, its field is
    None.

    On a system without /proc, ``psutil`` is the psutil module, and sensors read from it instead of from ``proc``.
    """

    proc: ProcFiles
    group: LimitingCgroup | None = None
    status: ServerStatusPage | None = None
    web: MonitoredWebServer | None = None
    pinger: GatewayPinger | None = None
    psutil: Any = None

    def start_round(self) -> None:
        """Discard the cached values, so that the next sample reads all sources again."""
        self.proc.start_round()
        if self.group is not None:
            self.group.start_round()
        if self.web is not None:
            self.web.start_round()


def open_host(options: AgentOptions, proc: str = "/proc") -> MeasuredHost:
    """Return the host to measure.

    Raises ConfigError if the cgroup named in the options doesn't exist, and LbdnsError if this system has neither a
    Linux /proc nor psutil.
    """
    status = ServerStatusPage(options.status) if options.status else None
    files = ProcFiles(proc)
    if not os.path.exists(f"{proc}/stat"):  # FreeBSD may have a /proc too, without this file
        return MeasuredHost(files, status=status, psutil=_import_psutil(proc))
    gateway = options.gateway
    pinger = None
    if gateway is not None:
        pinger = GatewayPinger((lambda: gateway) if isinstance(gateway, Gateway) else find_gateway)
    return MeasuredHost(
        proc=files, group=find_cgroup(options.cgroup), status=status, web=watched_server(options, status), pinger=pinger
    )


def reopen_host(host: MeasuredHost, before: AgentOptions, options: AgentOptions) -> MeasuredHost:
    """Return ``host`` adapted to the web server in ``options``. ``host`` was opened with the options ``before``."""
    if (before.status, before.web_server) == (options.status, options.web_server):
        return host
    status = ServerStatusPage(options.status) if options.status else None
    web = watched_server(options, status) if host.psutil is None else None
    return replace(host, status=status, web=web)


def watched_server(options: AgentOptions, status: ServerStatusPage | None) -> MonitoredWebServer | None:
    """Return the web server whose processes and sockets the agent measures, or None if the options name none."""
    resolver = None
    if options.web_server is not None:
        resolver = BackgroundResolver(options.web_server.watch)
    elif status is not None:
        resolver = status.resolver
    if resolver is None:
        return None
    return MonitoredWebServer(functools.partial(packed_addresses, resolver), resolver.endpoint.port)


def _import_psutil(proc: str) -> Any:
    try:
        import psutil
    except ImportError:
        raise LbdnsError(
            f"this system has no {proc}/stat, so the agent needs psutil: 'pip install lbdns-agent[psutil]'"
        ) from None
    return psutil


@dataclass(frozen=True)
class Sensor(Generic[T]):
    """A source of metrics that can be read without waiting.

    ``read`` may raise any exception. ``values`` is a pure function of three arguments: the previous reading (None the
    first time), the current reading, and the seconds between the two readings. ``momentary`` sensors measure the state
    of the host at one moment. They are read first, before the agent's own requests cause other processes to run.
    """

    source: str
    read: Callable[[MeasuredHost], T]
    values: Callable[[T | None, T, float], MetricValues]
    momentary: bool = False
    #: Reads a metric that is cheap enough for the checks between two samples, at most once per interval (seconds)
    quick_read: Callable[[MeasuredHost], MetricValues] | None = None
    quick_read_interval: float = 0.0
    #: Takes the same reading from the psutil module, where there is no /proc
    read_psutil: Callable[[Any], T] | None = None


@dataclass(frozen=True)
class NonBlockingSensor(Generic[T]):
    """A source of metrics that may respond slowly, such as a server.

    Each reading may take up to ``timeout`` seconds.
    """

    source: str
    read: Callable[[MeasuredHost], ReadingSteps[T]]
    values: Callable[[T | None, T, float], MetricValues]
    timeout: float


def newest_value(metric: str) -> Callable[[float | None, float, float], MetricValues]:
    """Return the ``values`` function of a sensor whose only metric is ``metric``: the value is the newest reading."""
    return lambda before, now, seconds: {metric: float(now)}


def rate(before: float, now: float, seconds: float) -> float:
    """Return a counter's increase per second, or 0 if it has restarted or no time has passed."""
    return max(0.0, now - before) / seconds if seconds > 0 else 0.0
