"""Starts the programs on a lab's web host: Apache (prefork, with a fixed number of workers) and the agent."""

from __future__ import annotations

import http.client
import sys
from pathlib import Path
from typing import Final

from lbdns_shared.endpoint import REPORT_PORT
from lbdns_shared.errors import LbdnsError
from lbdns_tools.apache_process import STATUS, ApacheSetup
from lbdns_tools.lab.farm.lab_farm import HTTP_PORT, ZONE, LabFarm, LabMachine, WebHost
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.machines.server_probes import get
from lbdns_tools.lab.programs.dns_servers import DnsServerFiles
from lbdns_tools.lab.programs.lab_programs import LabProgram, LabPrograms

#: s; forking 150 workers takes 0.25 s of CPU time, and a host may have a twentieth of a core
READY_S: Final = 60.0
STATUS_PAGE: Final = f"{STATUS}?auto"
#: The agent's default alarms except "run_queue/cpu > 64", which would exclude a host with 0.07 cores from answers when
#: the host has five runnable processes: hosts are scaled down to a tenth here, but their clients are not
ALARMS: Final = ("listen_queue > 256", "mem_available < 2")


def apache(
    programs: LabPrograms,
    place: PlacedMachine,
    host: WebHost,
    content: Path,
    folder: Path,
    *,
    keep_alive: bool = False,
    certificate: Path | None = None,
    php: bool = False,
) -> LabProgram:
    """Start Apache on a host with the pages in ``content``, and wait until all workers are running.

    With a ``certificate``, which must be in a file with its key, Apache also serves HTTPS. With ``php``, it also runs
    PHP programs. Raises LbdnsError.
    """
    # A port without an address creates one socket for both address families. Two sockets, which HTTPS needs, require an
    # accept mutex
    httpd = ApacheSetup(
        folder, content, str(HTTP_PORT), f"{host.name}.{ZONE}", workers=host.workers, keep_alive=keep_alive,
        certificate=certificate, php=php,
    )  # fmt: skip
    command = place.command(*httpd.command())
    httpd.pid_file.unlink(missing_ok=True)

    def ready() -> bool:
        # Apache writes its PID file once it has the port; before that, another server might answer there
        return httpd.pid_file.exists() and _all_there(place, host.workers, content)

    return programs.start(host.name, command, ready, READY_S)


def _all_there(place: PlacedMachine, workers: int, content: Path) -> bool:
    found = get(place, STATUS_PAGE)
    if found is None:
        return False
    if found[0] == http.client.FORBIDDEN:
        raise LbdnsError(
            f"{content}: the user www-data must have access to this directory and all parent directories (chmod o+x)"
        )
    status = dict(line.split(": ", 1) for line in found[1].decode("latin-1").splitlines() if ": " in line)
    return int(status.get("BusyWorkers", 0)) + int(status.get("IdleWorkers", 0)) >= workers


def agent_command(site: DnsServerFiles, place: PlacedMachine, gateway: LabMachine, farm: LabFarm) -> tuple[str, ...]:
    """Return the command that starts a web host's agent.

    The agent reports the metrics of the machine's control group, even if it runs in another group.
    """
    machine = place.machine
    command = [
        sys.executable, "-m", "lbdns_agent",
        "--name", machine.name,
        "--collector", f"{site.address}:{REPORT_PORT}",
        "--key-file", str(site.agent_key(machine.name)),
        "--interval", f"{farm.interval:g}",
        "--server-status", f"http://{machine.address}{STATUS_PAGE}",
        "--gateway", gateway.address,
        "--cgroup", str(place.group.cpu_directory),
        "--log-level", "warning",
    ]  # fmt: skip
    for condition in ALARMS if farm.alarms else ("off",):
        command += ["--alarm", condition]
    return tuple(command)
