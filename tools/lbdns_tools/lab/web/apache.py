"""Apache as a web host of the lab: prefork, a fixed number of workers, static pages, CGI, mod_status."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Final

from lbdns.errors import LbdnsError
from lbdns_tools.apache import STATUS, Httpd
from lbdns_tools.lab.asking import get
from lbdns_tools.lab.farm import HTTP_PORT, ZONE, WebHost
from lbdns_tools.lab.place import Place
from lbdns_tools.lab.programs import Programs, Running

#: s; to fork 150 workers takes a quarter of a second of CPU time, of which a host may have a twentieth
READY_S: Final = 60.0


def status_url(address: str) -> str:
    """The page that an agent reads."""
    return f"http://{address}{STATUS}?auto"


def apache(
    programs: Programs, place: Place, host: WebHost, content: Path, folder: Path, keep_alive: bool = False
) -> Running:
    """Start a host's Apache, its own files in ``folder``, and wait until all its workers are there.

    ``content`` is what ``write_content`` has written. Raises LbdnsError.
    """
    # One socket for both families (a port alone): with two, every accept would take a mutex among the workers
    httpd = Httpd(folder, content, str(HTTP_PORT), f"{host.name}.{ZONE}", workers=host.workers, keep_alive=keep_alive)
    command = place.command(*httpd.command())
    httpd.pid_file.unlink(missing_ok=True)
    # It writes its number when it has the port: till then somebody else might answer there
    return programs.start(
        host.name,
        command,
        ready=lambda: httpd.pid_file.exists() and _all_there(place, host.workers, content),
        seconds=READY_S,
    )


def _all_there(place: Place, workers: int, content: Path) -> bool:
    found = get(place, f"{STATUS}?auto")
    if found is None:
        return False
    if found[0] == http.client.FORBIDDEN:
        raise LbdnsError(f"{content}: www-data has to be let into it and into all folders above it (chmod o+x)")
    said = dict(line.split(": ", 1) for line in found[1].decode("latin-1").splitlines() if ": " in line)
    return int(said.get("BusyWorkers", 0)) + int(said.get("IdleWorkers", 0)) >= workers
