"""Runs Debian's Apache (prefork, mod_status) with a directory and an address for each instance."""

from __future__ import annotations

import contextlib
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lbdns_tools.apache_process import CGI_FOLDER, PAGES_FOLDER, ApacheSetup
from tests.end_to_end.process import Program, running

WORKERS = 20  # the idle workers at which score "thesis" gives its full 19.68

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
    """Yield a temporary folder that Apache's workers (www-data) can read, unlike pytest's own folders."""
    with tempfile.TemporaryDirectory(prefix="lbdns-apache-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextlib.contextmanager
def apache(
    folder: Path, name: str, address: str, port: int, enter: Callable[..., tuple[str, ...]] = lambda *command: command
) -> Iterator[Apache]:
    """Run Apache as host ``name``, with files in ``folder``, and yield it as soon as it responds.

    ``enter`` transforms the start command, for example to start Apache in a control group.
    """
    home = folder / name
    for part in (PAGES_FOLDER, CGI_FOLDER):
        (home / part).mkdir(parents=True)
    (home / PAGES_FOLDER / "index.html").write_text(f"{name}\n")
    work = home / CGI_FOLDER / "work"
    work.write_text(_WORK)
    work.chmod(0o755)
    listen = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    httpd = ApacheSetup(home, home, listen, f"{name}.hobbit", workers=WORKERS)
    with running(*enter(*httpd.command())) as process:
        found = Apache(name, address, port, process)
        process.until(lambda: _all_workers_wait(found), f"the workers of Apache {name} are up")
        yield found


def _all_workers_wait(found: Apache) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{found.url}/server-status?auto", timeout=30) as response:
            return f"IdleWorkers: {WORKERS - 1}" in response.read().decode()
    except OSError:
        return False
