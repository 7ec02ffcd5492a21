"""Debian's Apache as the tools and the tests run it: a configuration of its own, and nothing of the machine's."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.errors import LbdnsError
from lbdns_tools.installed import path_of
from lbdns_tools.ports import free_port

STATUS: Final = "/server-status"
#: Folders of an Apache's content: what is read, and what is run (as /cgi-bin/NAME)
PAGES_FOLDER, CGI_FOLDER = "pages", "cgi-bin"
READY_S: Final = 15.0  # seconds from its start until it listens
END_S: Final = 20.0
_MODULES: Final = Path("/usr/lib/apache2/modules")
#: As root its workers are to be nobody special; another user can't change who they are
_USER: Final = "User www-data\nGroup www-data\n" if os.geteuid() == 0 else ""

# No log of requests: 3,000 lines a second are CPU time that the studies' servers had not to spend on a shared disk.
_CONFIG: Final = """\
ServerName {name}
Listen {listen}
{modules}
{user}ServerRoot "{folder}"
DefaultRuntimeDir "{folder}"
PidFile "{pid_file}"
Mutex "file:{folder}" default
ErrorLog "{folder}/error.log"
Timeout 60
KeepAlive {keep_alive}
MaxKeepAliveRequests 0
KeepAliveTimeout 5
ExtendedStatus {extended_status}
DocumentRoot "{content}/{pages}"
DirectoryIndex index.html
ScriptAlias /cgi-bin/ "{content}/{programs}/"
<Directory "{content}/{pages}">
  ForceType text/html
</Directory>
<Location {status}>
  SetHandler server-status
</Location>
"""
# All from the start and none ever ended: what is measured is who is chosen, not how fast a server forks
_FIXED_WORKERS: Final = """\
StartServers {workers}
MinSpareServers {workers}
MaxSpareServers {workers}
ServerLimit {workers}
MaxRequestWorkers {workers}
"""


@dataclass(frozen=True, slots=True)
class Httpd:
    """One Apache, running or not."""

    folder: Path  # of its own files; its workers, who are not root, have to be let into it
    content: Path  # with PAGES_FOLDER and CGI_FOLDER below
    listen: str  # a port, or address:port
    name: str = "localhost"
    mpm: str = "prefork"  # worker, event
    workers: int | None = None  # processes of prefork, always as many; None: as many as Apache finds right
    keep_alive: bool = False
    extended_status: bool = True

    @property
    def pid_file(self) -> Path:
        """Written when it has its port."""
        return self.folder / "httpd.pid"

    def command(self) -> tuple[str, ...]:
        """Write its configuration; what runs it, in the foreground. Raises LbdnsError where there is no Apache."""
        program = path_of("apache2")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        config = self.folder / "httpd.conf"
        config.write_text(configuration(self))
        return program, "-f", str(config), "-DFOREGROUND"


def configuration(httpd: Httpd) -> str:
    """The text of httpd.conf. Pure."""
    # A forking server starts programs itself, one with threads has a process for that
    cgi = "cgi" if httpd.mpm == "prefork" else "cgid"
    modules = (f"mpm_{httpd.mpm}", "authz_core", "dir", "alias", cgi, "status")
    text = _CONFIG.format(
        name=httpd.name,
        listen=httpd.listen,
        modules="\n".join(f"LoadModule {name}_module {_MODULES}/mod_{name}.so" for name in modules),
        user=_USER,
        folder=httpd.folder,
        pid_file=httpd.pid_file,
        keep_alive="On" if httpd.keep_alive else "Off",
        extended_status="On" if httpd.extended_status else "Off",
        content=httpd.content,
        pages=PAGES_FOLDER,
        programs=CGI_FOLDER,
        status=STATUS,
    )
    if httpd.workers is not None:
        text += _FIXED_WORKERS.format(workers=httpd.workers)
    return text + (f'ScriptSock "{httpd.folder}/cgid.sock"\n' if cgi == "cgid" else "")


@dataclass(frozen=True, slots=True)
class Running:
    """An Apache on this machine's loopback."""

    port: int
    content: Path  # to be filled

    @property
    def base(self) -> str:
        """The beginning of its URLs, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def status_url(self) -> str:
        return f"{self.base}{STATUS}?auto"

    def add_program(self, name: str, text: str) -> None:
        """A CGI program."""
        path = self.content / CGI_FOLDER / name
        path.write_text(text)
        path.chmod(0o755)


@contextmanager
def apache(
    mpm: str = "prefork", port: int = 0, *, extended_status: bool = True, keep_alive: bool = False
) -> Iterator[Running]:
    """One on the loopback with folders of its own, at a free port unless one is given; it has an index.html.

    Raises LbdnsError where there is no Apache, and if it won't start.
    """
    with tempfile.TemporaryDirectory(prefix="lbdns-apache-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        for part in (PAGES_FOLDER, CGI_FOLDER):
            (folder / part).mkdir()
        (folder / PAGES_FOLDER / "index.html").write_text("It works\n")
        port = port or free_port()
        httpd = Httpd(
            folder, folder, f"127.0.0.1:{port}", mpm=mpm, keep_alive=keep_alive, extended_status=extended_status
        )
        process = subprocess.Popen(httpd.command(), stderr=subprocess.PIPE, start_new_session=True)
        try:
            _await_listening(process, httpd)
            yield Running(port, folder)
        finally:
            process.terminate()
            process.communicate(timeout=END_S)


def _await_listening(process: subprocess.Popen[bytes], httpd: Httpd) -> None:
    end = time.monotonic() + READY_S
    while not httpd.pid_file.exists():
        if process.poll() is not None:
            assert process.stderr is not None
            raise LbdnsError(f"Apache ended: {process.stderr.read().decode(errors='replace')}")
        if time.monotonic() > end:
            raise LbdnsError(f"Apache doesn't listen after {READY_S:g} s")
        time.sleep(0.02)
