"""Starts Apache on a lab's web host: prefork with a fixed number of workers, static pages, CGI, mod_status."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.apache_process import STATUS, ApacheSetup
from lbdns_tools.lab.farm.lab_farm import HTTP_PORT, ZONE, WebHost
from lbdns_tools.lab.machines.lab_programs import LabProgram, LabPrograms
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.machines.server_probes import get

#: s; forking 150 workers takes 0.25 s of CPU time, and a host may have a twentieth of a core
READY_S: Final = 60.0


def status_url(address: str) -> str:
    """Return the URL of the status page that an agent reads."""
    return f"http://{address}{STATUS}?auto"


def apache(
    programs: LabPrograms, place: PlacedMachine, host: WebHost, content: Path, folder: Path, keep_alive: bool = False
) -> LabProgram:
    """Start a host's Apache with its files in ``folder`` and wait until all its workers run.

    ``content`` is the folder that ``write_content`` has filled. Raises LbdnsError.
    """
    # A port alone gives one socket for both families: with two, the workers would need a mutex for every accept
    httpd = ApacheSetup(
        folder, content, str(HTTP_PORT), f"{host.name}.{ZONE}", workers=host.workers, keep_alive=keep_alive
    )
    command = place.command(*httpd.command())
    httpd.pid_file.unlink(missing_ok=True)
    # Apache writes its PID file once it has the port; before that, another server might answer there
    return programs.start(
        host.name,
        command,
        ready=lambda: httpd.pid_file.exists() and _all_there(place, host.workers, content),
        seconds=READY_S,
    )


def _all_there(place: PlacedMachine, workers: int, content: Path) -> bool:
    found = get(place, f"{STATUS}?auto")
    if found is None:
        return False
    if found[0] == http.client.FORBIDDEN:
        raise LbdnsError(f"{content}: www-data must have access to this folder and all its parents (chmod o+x)")
    status = dict(line.split(": ", 1) for line in found[1].decode("latin-1").splitlines() if ": " in line)
    return int(status.get("BusyWorkers", 0)) + int(status.get("IdleWorkers", 0)) >= workers
