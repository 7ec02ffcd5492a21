"""Apache as a web host of the lab: prefork, a fixed number of workers, static pages, CGI, mod_status."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Final

from lbdns.errors import LbdnsError
from lbdns_tools.lab.asking import get
from lbdns_tools.lab.farm import HTTP_PORT, ZONE, WebHost
from lbdns_tools.lab.installed import path_of
from lbdns_tools.lab.place import Place
from lbdns_tools.lab.programs import Programs, Running
from lbdns_tools.lab.web.content import CGI_FOLDER, PAGES_FOLDER

MODULES: Final = Path("/usr/lib/apache2/modules")
PID_FILE: Final = "httpd.pid"
STATUS: Final = "/server-status"
#: s; to fork 150 workers takes a quarter of a second of CPU time, of which a host may have a twentieth
READY_S: Final = 60.0
_MODULES: Final = ("mpm_prefork", "authz_core", "dir", "alias", "cgi", "status")

# One socket for both families (Listen with a port alone): with two, every accept would take a mutex among the workers.
# All workers from the start and none ever ended: what is measured is who is chosen, not how fast a server forks.
# No log of requests: 3,000 lines a second are CPU time that the study's servers had not to spend on a shared disk.
_CONFIG: Final = """\
ServerName {name}.{zone}
Listen {port}
{modules}
User www-data
Group www-data
ServerRoot "{folder}"
DefaultRuntimeDir "{folder}"
PidFile "{folder}/{pid_file}"
Mutex "file:{folder}" default
ErrorLog "{folder}/error.log"
LogLevel warn
Timeout 60
KeepAlive {keep_alive}
MaxKeepAliveRequests 0
KeepAliveTimeout 5
StartServers {workers}
MinSpareServers {workers}
MaxSpareServers {workers}
ServerLimit {workers}
MaxRequestWorkers {workers}
MaxConnectionsPerChild 0
ExtendedStatus On
DocumentRoot "{content}/{pages}"
DirectoryIndex index.html
ScriptAlias /cgi-bin/ "{content}/{cgi}/"
<Directory />
  AllowOverride None
</Directory>
<Directory "{content}/{pages}">
  ForceType text/html
</Directory>
<Location {status}>
  SetHandler server-status
</Location>
"""


def httpd_conf(host: WebHost, content: Path, folder: Path, keep_alive: bool = False, modules: Path = MODULES) -> str:
    """Apache's configuration with its own files in ``folder``. Pure."""
    return _CONFIG.format(
        name=host.name,
        zone=ZONE,
        port=HTTP_PORT,
        modules="\n".join(f"LoadModule {name}_module {modules}/mod_{name}.so" for name in _MODULES),
        folder=folder,
        pid_file=PID_FILE,
        keep_alive="On" if keep_alive else "Off",
        workers=host.workers,
        content=content,
        pages=PAGES_FOLDER,
        cgi=CGI_FOLDER,
        status=STATUS,
    )


def status_url(address: str) -> str:
    """The page that an agent reads."""
    return f"http://{address}{STATUS}?auto"


def apache(
    programs: Programs, place: Place, host: WebHost, content: Path, folder: Path, keep_alive: bool = False
) -> Running:
    """Start a host's Apache, its own files in ``folder``, and wait until all its workers are there.

    ``content`` is what ``write_content`` has written. Raises LbdnsError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    config = folder / "httpd.conf"
    config.write_text(httpd_conf(host, content, folder, keep_alive))
    command = place.command(path_of("apache2"), "-f", str(config), "-DFOREGROUND")
    pid_file = folder / PID_FILE
    pid_file.unlink(missing_ok=True)
    # It writes its number when it has the port: till then somebody else might answer there
    return programs.start(
        host.name,
        command,
        ready=lambda: pid_file.exists() and _all_there(place, host.workers, content),
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
