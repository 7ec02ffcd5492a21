"""What the sensors look at: the kernel's files, the limiting cgroup, the web server, the gateway."""

from __future__ import annotations

from dataclasses import dataclass

from lbdns_agent.cgroup.group import Group
from lbdns_agent.gateway.ping import Pinger
from lbdns_agent.kernel_file import Proc
from lbdns_agent.webserver.server import WebServer
from lbdns_agent.webserver.status import StatusPage


@dataclass(frozen=True, slots=True)
class Host:
    """None stands for a thing that isn't there or was switched off."""

    proc: Proc
    group: Group | None = None
    status: StatusPage | None = None
    web: WebServer | None = None
    pinger: Pinger | None = None

    def new_round(self) -> None:
        """What is asked for from now on is read anew."""
        self.proc.new_round()
        if self.group is not None:
            self.group.new_round()
        if self.web is not None:
            self.web.new_round()
