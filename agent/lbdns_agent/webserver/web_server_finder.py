"""Finds the web server that runs on this host, and reads its status page at the usual URLs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.non_blocking_sensors import ReadingSteps
from lbdns_agent.webserver.nginx_workers import NGINX_LOCATION, NGINX_URL, NginxWorkers
from lbdns_agent.webserver.status_page import parse_page_url
from lbdns_agent.webserver.worker_status import WorkerStatus

SEARCH_INTERVAL: Final = 30.0  # seconds between two searches, while nothing readable is found
PATIENCE: Final = 3  # failed readings in a row after which the agent searches again
#: Names of processes, and the program to which they belong
PROGRAMS: Final = {
    "apache2": "Apache", "httpd": "Apache", "nginx": "nginx", "haproxy": "HAProxy", "caddy": "Caddy",
    "lighttpd": "lighttpd",
}  # fmt: skip
NGINX_URLS: Final = (NGINX_URL, "http://127.0.0.1/stub_status", "http://127.0.0.1/basic_status")
#: What turns the measurement of a program on. HAProxy is never measured by default, because it may balance anything
_ADVICE: Final = {
    "nginx": f"nginx is running, but has no stub_status page at {NGINX_URL}: add '{NGINX_LOCATION}' to its server "
    "block, or write 'nginx = URL' in the section [web-server] of the agent's configuration file",
    "HAProxy": "HAProxy is running: to measure it, write 'haproxy = /run/haproxy/admin.sock' (the path of its 'stats "
    "socket') in the section [web-server] of the agent's configuration file",
    "Caddy": "Caddy is running: add 'metrics' to 'servers' in the global options of its Caddyfile, and define "
    "requests_total and busy_workers in the agent's configuration file with 'prometheus = http://127.0.0.1:2019/metrics'",
    "lighttpd": "lighttpd is running: define requests_total and busy_workers in the agent's configuration file",
}


class WorkerReader(Protocol):
    """Reads the status of one web server."""

    def read(self) -> ReadingSteps[WorkerStatus]:
        """Return the status. Raises MissingValueError."""
        ...


class FoundServer(NamedTuple):
    """A program, the place at which its status may be read, and the reader for it."""

    program: str
    place: str
    reader: WorkerReader


def running_programs(proc: str = "/proc") -> list[str]:
    """Return the web servers in PROGRAMS that have a running process, in the order of PROGRAMS."""
    names = set()
    try:
        pids = [name for name in os.listdir(proc) if name.isdigit()]
    except OSError:
        return []
    for pid in pids:
        try:
            with open(f"{proc}/{pid}/comm", "rb") as file:
                names.add(file.read(32).decode("ascii", "replace").strip())
        except OSError:  # the process has ended
            continue
    return list(dict.fromkeys(program for name, program in PROGRAMS.items() if name in names))


def usual_places() -> list[FoundServer]:
    """Return the places at which nginx usually offers its status."""
    return [FoundServer("nginx", url, NginxWorkers(parse_page_url(url, url))) for url in NGINX_URLS]


class WebServerFinder:
    """Measures Apache's status page at its default URL or, if another web server runs instead, that server."""

    def __init__(
        self,
        apache: FoundServer,
        programs: Callable[[], list[str]] = running_programs,
        places: Callable[[], list[FoundServer]] = usual_places,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.found: FoundServer | None = None
        self._apache, self._programs, self._places, self._clock = apache, programs, places, clock
        self._next_search = 0.0
        self._advice = ""  # if it isn't empty, there is nothing to read until the next search
        self._failures = 0

    def description(self) -> str:
        """Return the name of the web server that was found and the place of its status, or an empty string."""
        return f"{self.found.program}, {self.found.place}" if self.found else ""

    def read(self) -> ReadingSteps[WorkerStatus]:
        """Read the web server's status, after a search for the server if necessary. Raises MissingValueError."""
        if self.found is None and self._clock() >= self._next_search:
            self._next_search = self._clock() + SEARCH_INTERVAL
            status = yield from self._search()
            if status is not None:
                return status
        if self._advice:
            raise MissingValueError(self._advice)
        if self.found is None:
            return (yield from self._apache.reader.read())
        try:
            status = yield from self.found.reader.read()
        except MissingValueError:
            self._failures += 1
            if self._failures >= PATIENCE:
                self.found = None
            raise
        self._failures = 0
        return status

    def _search(self) -> ReadingSteps[WorkerStatus | None]:
        """Try the places where the running web servers usually offer their status. Return the first status found, or
        None."""
        self._advice = ""
        self._failures = 0
        programs = self._programs()
        for each in _candidates(programs, self._apache, self._places()):
            try:
                status = yield from each.reader.read()
            except MissingValueError:
                continue
            self.found = each
            return status
        if "Apache" not in programs:
            self._advice = "; ".join(_ADVICE[program] for program in programs)
        return None


def _candidates(programs: list[str], apache: FoundServer, places: Iterable[FoundServer]) -> Iterable[FoundServer]:
    """Return the places to try. Apache's page comes first, but is omitted if only other web servers are running."""
    if "Apache" in programs or not programs:
        yield apache
    for each in places:
        if each.program in programs:
            yield each
