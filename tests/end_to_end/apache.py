"""Debian's Apache with mod_status on, prefork, one directory and one address each."""

from __future__ import annotations

import contextlib
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.end_to_end.process import Program, running
from tests.needs import program

WORKERS = 20  # the idle workers at which score "thesis" gives its full 19.68

_CONFIG = """\
ServerRoot /usr/lib/apache2
LoadModule mpm_prefork_module modules/mod_mpm_prefork.so
LoadModule authz_core_module modules/mod_authz_core.so
LoadModule alias_module modules/mod_alias.so
LoadModule cgi_module modules/mod_cgi.so
LoadModule status_module modules/mod_status.so
ServerName {name}.hobbit
Listen {listen}
User www-data
Group www-data
PidFile {folder}/httpd.pid
DefaultRuntimeDir {folder}
Mutex file:{folder} default
ErrorLog {folder}/error.log
StartServers {workers}
ServerLimit {workers}
MaxRequestWorkers {workers}
MinSpareServers {workers}
MaxSpareServers {workers}
ExtendedStatus On
DocumentRoot {folder}/pages
ScriptAlias /cgi-bin/ {folder}/cgi-bin/
<Location /server-status>
  SetHandler server-status
</Location>
"""
#: A page that is computed: about 0.1 s of CPU time in a process of its own
_WORK = """\
#!/bin/sh
printf 'Content-Type: text/plain\\n\\n'
i=0
while [ $i -lt 100000 ]; do i=$((i+1)); done
echo done
"""


@dataclass(frozen=True)
class Apache:
    """One running Apache."""

    name: str
    address: str
    port: int
    process: Program

    @property
    def url(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}"


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that Apache's workers, who are www-data, can read; pytest's own are root's alone."""
    with tempfile.TemporaryDirectory(prefix="lbdns-apache-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextlib.contextmanager
def apache(
    folder: Path,
    name: str,
    address: str,
    port: int,
    enter: Callable[..., tuple[str, ...]] = lambda *command: command,
) -> Iterator[Apache]:
    """Apache as host ``name`` with its files in an open ``folder``, from its first answer on.

    ``enter`` makes another command of the one that starts it, to start it in a control group, say.
    """
    home = folder / name
    for part in ("pages", "cgi-bin"):
        (home / part).mkdir(parents=True)
    (home / "pages" / "index.html").write_text(f"{name}\n")
    work = home / "cgi-bin" / "work"
    work.write_text(_WORK)
    work.chmod(0o755)
    listen = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    config = home / "httpd.conf"
    config.write_text(_CONFIG.format(name=name, listen=listen, folder=home, workers=WORKERS))
    with running(*enter(program("apache2"), "-f", str(config), "-D", "FOREGROUND")) as process:
        found = Apache(name, address, port, process)
        process.until(lambda: _all_workers_wait(found), f"the workers of Apache {name} are up")
        yield found


def _all_workers_wait(found: Apache) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{found.url}/server-status?auto", timeout=5) as response:
            return f"IdleWorkers: {WORKERS - 1}" in response.read().decode()
    except OSError:
        return False
