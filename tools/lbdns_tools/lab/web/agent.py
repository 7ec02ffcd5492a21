"""The agent of a web host: its command. Pure."""

from __future__ import annotations

import sys
from typing import Final

from lbdns.endpoint import REPORT_PORT
from lbdns_tools.lab.addresses import Machine
from lbdns_tools.lab.front.lbdns import Site
from lbdns_tools.lab.place import Place
from lbdns_tools.lab.web.apache import status_url

#: The agent's own conditions but one. "run_queue/cpu > 64" would take a host of 0.07 cores out of the answers as soon
#: as five programs want to run, and a host here is scaled down to a tenth, its clients are not
ALARMS: Final = ("listen_queue > 256", "mem_available < 2")


def agent_command(site: Site, place: Place, gateway: Machine, interval: float) -> tuple[str, ...]:
    """What runs the agent of a web host, to be started by ``place``; ``interval`` is seconds between two reports.

    Its figures are those of the machine's control group, whichever group the agent itself is in.
    """
    machine = place.machine
    command = [
        sys.executable, "-m", "lbdns_agent",
        "--name", machine.name,
        "--collector", f"{site.address}:{REPORT_PORT}",
        "--key-file", str(site.agent_key(machine.name)),
        "--interval", f"{interval:g}",
        "--server-status", status_url(machine.address),
        "--gateway", gateway.address,
        "--cgroup", str(place.group.cpu_directory),
        "--log-level", "warning",
    ]  # fmt: skip
    for condition in ALARMS:
        command += ["--alarm", condition]
    return tuple(command)
