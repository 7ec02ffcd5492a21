"""Run the demo: a DNS server with its collector, three web servers and their agents, until a signal or a time limit."""

from __future__ import annotations

import contextlib
import socket
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.client.dns_client import ask, make_query
from lbdns.demo import farm_files, ports
from lbdns.demo.children import Child, Children
from lbdns.demo.farm_files import LOOPBACK, DemoPlan, Files
from lbdns.demo.greeting import what_to_try
from lbdns.process.stop_signals import StopSignals, stop_signals
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError

START_TIMEOUT: Final = 30.0  # seconds: many times what the server takes on a slow machine
_POLL: Final = 0.05  # seconds between checks of the children


@dataclass(frozen=True, slots=True)
class Family:
    """All processes of one demo. Agents stop first, so that the collector still receives their last reports."""

    servers: Children
    agents: Children

    def first_ended(self) -> Child | None:
        return self.servers.first_ended() or self.agents.first_ended()


def run(plan: DemoPlan, seconds: float | None) -> None:
    """Run the demo until SIGINT, SIGTERM, SIGHUP or, if given, ``seconds`` after it was ready.

    Raises ListenError for taken ports, before anything is started, and LbdnsError when a part of it dies.
    """
    ports.check(plan)
    with (
        stop_signals() as stop,
        tempfile.TemporaryDirectory(prefix="lbdns-demo-") as folder,
        Children() as servers,
        Children() as agents,
    ):
        began = time.monotonic()
        family = Family(servers, agents)
        files = farm_files.write(plan, Path(folder))
        _start(plan, files, family)
        if not _until_it_answers(plan, family, stop):
            return
        print(what_to_try(plan, files.config, time.monotonic() - began), flush=True)
        end = None if seconds is None else time.monotonic() + seconds
        while not stop.wait(_POLL) and (end is None or time.monotonic() < end):
            _all_alive(family)
        print("lbdns demo: stopping", flush=True)


def _start(plan: DemoPlan, files: Files, family: Family) -> None:
    python = sys.executable
    family.servers.start(
        "the DNS server", [python, "-m", "lbdns", "serve", "-c", str(files.config), "--log-level", plan.log_level]
    )
    gateway = LOOPBACK if _may_ping() else "off"
    for host in plan.hosts:
        listen = [word for endpoint in plan.web_endpoints(host) for word in ("--listen", str(endpoint))]
        family.servers.start(
            f"web server {host.name}", [python, "-m", "lbdns.demo.webserver", "--name", host.name, *listen]
        )
    for host in plan.hosts:
        family.agents.start(
            f"the agent of {host.name}",
            [
                *(python, "-m", "lbdns_agent", "--collector", f"{LOOPBACK}:{plan.report_port}"),
                *("--name", host.name, "--key-file", str(files.key_of(host)), "--interval", str(plan.interval)),
                *("--server-status", f"http://{plan.web_endpoints(host)[0]}/server-status?auto"),
                *("--gateway", gateway, "--log-level", plan.log_level),
            ],
        )


def _may_ping() -> bool:
    """Return whether this user may send ICMP echo requests; if not, the agents run without ping."""
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, kind, socket.getprotobyname("icmp")):
            return True
    return False


def _all_alive(family: Family) -> None:
    if child := family.first_ended():
        raise LbdnsError(f"lbdns demo: {child.ending()}; so the demo stops")


def _until_it_answers(plan: DemoPlan, family: Family, stop: StopSignals) -> bool:
    """Wait until DNS and HTTP answer; return False if a signal stopped the demo before."""
    end = time.monotonic() + START_TIMEOUT
    while not stop.is_set():
        _all_alive(family)
        if _dns_answers(plan) and _http_answers(plan):
            return True
        if time.monotonic() > end:
            raise LbdnsError(f"lbdns demo: the DNS server did not answer within {START_TIMEOUT:.0f} s")
        stop.wait(_POLL / 2)
    return False


def _dns_answers(plan: DemoPlan) -> bool:
    """Whether the DNS server answers for the zone: until it listens, the port refuses the query."""
    with contextlib.suppress(LbdnsError):
        ask(make_query("hobbit", "SOA"), Endpoint(LOOPBACK, plan.dns_port), timeout=_POLL, tries=1)
        return True
    return False


def _http_answers(plan: DemoPlan) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, plan.http_port), timeout=1):
        return True
    return False
