"""Runs Debian's Apache for tools and tests, with a generated configuration instead of the system-wide configuration."""

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

from lbdns_shared.errors import LbdnsError
from lbdns_tools.free_ports import free_port
from lbdns_tools.installed_programs import path_of

STATUS: Final = "/server-status"
#: Folders of an Apache's content: pages, and programs (run as /cgi-bin/NAME)
PAGES_FOLDER, CGI_FOLDER = "pages", "cgi-bin"
#: PHP programs, run as /php/NAME with PHP's opcode cache, and as /php-uncached/NAME without it
PHP_FOLDER: Final = "php"
PHP, PHP_UNCACHED = "/php", "/php-uncached"
READY_S: Final = 15.0  # seconds that Apache may take to start listening
END_S: Final = 20.0  # seconds that Apache may take to exit
_MODULES: Final = Path("/usr/lib/apache2/modules")
#: If root starts Apache, its workers need an unprivileged user; otherwise they run as the user who starts Apache
_USER: Final = "User www-data\nGroup www-data\n" if os.geteuid() == 0 else ""

# No access log: at 3,000 requests/s, writing it would add CPU time that the studies must not measure
_CONFIG: Final = """\
ServerName {httpd.name}
Listen {httpd.listen}
{modules}
{user}ServerRoot "{httpd.folder}"
DefaultRuntimeDir "{httpd.folder}"
PidFile "{httpd.pid_file}"
Mutex "file:{httpd.folder}" default
ErrorLog "{httpd.folder}/error.log"
Timeout 60
KeepAlive {keep_alive}
MaxKeepAliveRequests 0
KeepAliveTimeout 5
ExtendedStatus {extended_status}
DocumentRoot "{httpd.content}/{pages}"
DirectoryIndex index.html
ScriptAlias /cgi-bin/ "{httpd.content}/{programs}/"
<Directory "{httpd.content}/{pages}">
  ForceType text/html
</Directory>
<Location {status}>
  SetHandler server-status
</Location>
"""
# All workers start immediately and none ever exits, because forking workers would disturb the measurements
_FIXED_WORKERS: Final = """\
StartServers {workers}
MinSpareServers {workers}
MaxSpareServers {workers}
ServerLimit {workers}
MaxRequestWorkers {workers}
"""
# Without a cache, each connection needs a full handshake
_HTTPS: Final = """\
Listen 443
SSLSessionCache none
SSLSessionTickets off
<VirtualHost *:443>
  SSLEngine on
  SSLCertificateFile "{certificate}"
</VirtualHost>
"""
_PHP: Final = """\
LoadModule php_module {module}
Alias {cached}/ "{folder}/"
Alias {uncached}/ "{folder}/"
<Directory "{folder}">
  SetHandler application/x-httpd-php
</Directory>
<Location {uncached}>
  php_admin_flag opcache.enable Off
</Location>
"""


@dataclass(frozen=True, slots=True)
class ApacheSetup:
    """The settings of an Apache instance and the command that starts it."""

    folder: Path  # its own files; its unprivileged workers must be able to read them
    content: Path  # with PAGES_FOLDER and CGI_FOLDER below
    listen: str  # a port, or address:port
    name: str = "localhost"
    mpm: str = "prefork"  # worker, event
    workers: int | None = None  # a fixed number of prefork processes; None: Apache decides
    keep_alive: bool = False
    extended_status: bool = True
    certificate: Path | None = None  # with its key; if it is given, Apache also serves HTTPS on port 443
    php: bool = False  # whether Apache runs the PHP programs; needs prefork

    @property
    def pid_file(self) -> Path:
        """The path of the PID file, which Apache writes when it starts to listen."""
        return self.folder / "httpd.pid"

    def command(self) -> tuple[str, ...]:
        """Write the configuration and return the command that runs Apache. Raises LbdnsError if Apache is missing."""
        program = path_of("apache2")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        config = self.folder / "httpd.conf"
        config.write_text(configuration(self))
        return program, "-f", str(config), "-DFOREGROUND"


def configuration(httpd: ApacheSetup) -> str:
    # A forking server starts CGI programs itself; a threaded one has a process (cgid) for that
    cgi = "cgi" if httpd.mpm == "prefork" else "cgid"
    modules = [f"mpm_{httpd.mpm}", "authz_core", "dir", "alias", cgi, "status"]
    modules += ["ssl"] if httpd.certificate else []
    text = _CONFIG.format(
        httpd=httpd,
        modules="\n".join(f"LoadModule {name}_module {_MODULES}/mod_{name}.so" for name in modules),
        user=_USER,
        keep_alive="On" if httpd.keep_alive else "Off",
        extended_status="On" if httpd.extended_status else "Off",
        pages=PAGES_FOLDER,
        programs=CGI_FOLDER,
        status=STATUS,
    )
    if httpd.workers is not None:
        text += _FIXED_WORKERS.format(workers=httpd.workers)
    if httpd.certificate:
        text += _HTTPS.format(certificate=httpd.certificate)
    if httpd.php:
        text += _PHP.format(
            module=php_modules()[-1], folder=httpd.content / PHP_FOLDER, cached=PHP, uncached=PHP_UNCACHED
        )
    return text + (f'ScriptSock "{httpd.folder}/cgid.sock"\n' if cgi == "cgid" else "")


def php_modules() -> list[Path]:
    """Return the paths of Apache's PHP modules, the newest last. The list is empty if none is installed."""
    return sorted(_MODULES.glob("libphp*.so"))


@dataclass(frozen=True, slots=True)
class RunningApache:
    """An Apache instance running on a loopback address."""

    port: int
    content: Path  # with PAGES_FOLDER and CGI_FOLDER below

    @property
    def base(self) -> str:
        """The base URL of the server, without a trailing slash."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def status_url(self) -> str:
        return f"{self.base}{STATUS}?auto"

    def add_program(self, name: str, text: str) -> None:
        path = self.content / CGI_FOLDER / name
        path.write_text(text)
        path.chmod(0o755)


@contextmanager
def apache(
    mpm: str = "prefork", port: int = 0, *, extended_status: bool = True, keep_alive: bool = False
) -> Iterator[RunningApache]:
    """Run Apache with an index.html on a loopback address for the duration of a with statement.

    A ``port`` of 0 selects a free port. Raises LbdnsError if Apache is not installed or does not start.
    """
    with tempfile.TemporaryDirectory(prefix="lbdns-apache-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        for part in (PAGES_FOLDER, CGI_FOLDER):
            (folder / part).mkdir()
        (folder / PAGES_FOLDER / "index.html").write_text("It works\n")
        port = port or free_port()
        httpd = ApacheSetup(
            folder, folder, f"127.0.0.1:{port}", mpm=mpm, keep_alive=keep_alive, extended_status=extended_status
        )
        process = subprocess.Popen(httpd.command(), stderr=subprocess.PIPE, start_new_session=True)
        try:
            _await_listening(process, httpd)
            yield RunningApache(port, folder)
        finally:
            process.terminate()
            process.communicate(timeout=END_S)


def _await_listening(process: subprocess.Popen[bytes], httpd: ApacheSetup) -> None:
    end = time.monotonic() + READY_S
    while not httpd.pid_file.exists():
        if process.poll() is not None:
            assert process.stderr is not None
            raise LbdnsError(f"Apache exited: {process.stderr.read().decode(errors='replace')}")
        if time.monotonic() > end:
            raise LbdnsError(f"Apache did not start listening within {READY_S:g} s")
        time.sleep(0.02)
