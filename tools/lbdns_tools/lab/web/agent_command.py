"""The command line of the agent (``python -m lbdns_agent``) on a lab's web host."""

from __future__ import annotations

import sys
from typing import Final

from lbdns_shared.endpoint import REPORT_PORT
from lbdns_tools.lab.farm.machine_addresses import LabMachine
from lbdns_tools.lab.front.lbdns_server import DnsServerFiles
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.web.apache_web_host import status_url

#: The agent's default alarms except "run_queue/cpu > 64": that one would take a host with 0.07 cores out of the answers
#: with five runnable processes. Hosts are scaled down to a tenth here, but their clients are not
ALARMS: Final = ("listen_queue > 256", "mem_available < 2")


def agent_command(site: DnsServerFiles, place: PlacedMachine, gateway: LabMachine, interval: float) -> tuple[str, ...]:
    """Return the command that runs a web host's agent, reporting every ``interval`` seconds; start it in ``place``.

    The agent reports the metrics of the machine's control group, even if it runs in another group itself.
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
