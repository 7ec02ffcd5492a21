"""The host that the sensors measure: its kernel files or psutil, limiting cgroup, web server and gateway."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from lbdns_agent.agent_options import AgentOptions
from lbdns_agent.cgroup.find_cgroup import find_cgroup
from lbdns_agent.cgroup.limiting_cgroup import LimitingCgroup
from lbdns_agent.gateway.default_route import Gateway, find_gateway
from lbdns_agent.gateway.gateway_pinger import GatewayPinger
from lbdns_agent.kernel_files import ProcFiles
from lbdns_agent.webserver.monitored_web_server import MonitoredWebServer
from lbdns_agent.webserver.status_page import ServerStatusPage
from lbdns_shared.errors import LbdnsError


@dataclass(frozen=True)
class MeasuredHost:
    """What the sensors read. None stands for a part that doesn't exist or is switched off. ``psutil`` is the module, on
    a system without /proc; sensors then read it and not ``proc``."""

    proc: ProcFiles
    group: LimitingCgroup | None = None
    status: ServerStatusPage | None = None
    web: MonitoredWebServer | None = None
    pinger: GatewayPinger | None = None
    psutil: Any = None

    def start_round(self) -> None:
        """Forget what was read in the last round."""
        self.proc.start_round()
        if self.group is not None:
            self.group.start_round()
        if self.web is not None:
            self.web.start_round()


def open_host(options: AgentOptions, proc: str = "/proc") -> MeasuredHost:
    """Return the host to measure. Raises ConfigError if the cgroup of the options doesn't exist, and LbdnsError if
    there is neither a Linux /proc nor psutil."""
    status = ServerStatusPage(options.status) if options.status else None
    files = ProcFiles(proc)
    if not os.path.exists(f"{proc}/stat"):  # FreeBSD may have a /proc too, without this file
        return MeasuredHost(files, status=status, psutil=_import_psutil(proc))
    gateway = options.gateway
    pinger = None
    if gateway is not None:
        pinger = GatewayPinger((lambda: gateway) if isinstance(gateway, Gateway) else find_gateway)
    return MeasuredHost(
        proc=files,
        group=find_cgroup(options.cgroup),
        status=status,
        web=MonitoredWebServer(lambda: status.addresses, status.url.endpoint.port) if status else None,
        pinger=pinger,
    )


def _import_psutil(proc: str) -> Any:
    try:
        import psutil
    except ImportError:
        raise LbdnsError(
            f"this system has no {proc}/stat, so the agent needs psutil: 'pip install lbdns-agent[psutil]'"
        ) from None
    return psutil
