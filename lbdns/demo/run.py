"""The demo: a DNS server with its collector, three web servers, an agent for each, until somebody ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns import names
from lbdns.demo import farm_files, ports
from lbdns.demo.children import Child, Children
from lbdns.demo.farm_files import LOOPBACK, Files, Plan
from lbdns.demo.greeting import what_to_try
from lbdns.errors import LbdnsError

START_TIMEOUT: Final = 30.0  # seconds: many times what the server takes on a slow machine
_POLL: Final = 0.05  # seconds between looks at the children
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Family:
    """All processes of one demo. The agents go first, while somebody is there to hear their goodbye."""

    servers: Children
    agents: Children

    def first_ended(self) -> Child | None:
        return self.servers.first_ended() or self.agents.first_ended()


def run(plan: Plan, seconds: float | None) -> None:
    """Run the demo until SIGINT, SIGTERM, SIGHUP or, if given, ``seconds`` after it was ready.

    Raises ListenError for taken ports, before anything is started, and LbdnsError when a part of it dies.
    """
    ports.check(plan)
    with (
        _stop_on_signals() as stop,
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


def _start(plan: Plan, files: Files, family: Family) -> None:
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
    """Whether this user may send an ICMP echo; if not, the agents shouldn't complain about it in a demo."""
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, kind, socket.getprotobyname("icmp")):
            return True
    return False


def _all_alive(family: Family) -> None:
    if child := family.first_ended():
        raise LbdnsError(f"lbdns demo: {child.ending()}; so the demo ends")


def _until_it_answers(plan: Plan, family: Family, stop: threading.Event) -> bool:
    """Wait until DNS and HTTP answer; False when somebody ended the demo before."""
    end = time.monotonic() + START_TIMEOUT
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.connect((LOOPBACK, plan.dns_port))
        asker.settimeout(_POLL)
        while not stop.is_set():
            _all_alive(family)
            if _dns_answers(asker) and _http_answers(plan):
                return True
            if time.monotonic() > end:
                raise LbdnsError(f"lbdns demo: the DNS server doesn't answer after {START_TIMEOUT:.0f} s")
            stop.wait(_POLL / 2)
    return False


def _dns_answers(asker: socket.socket) -> bool:
    soa = names.from_text("hobbit") + struct.pack("!2H", 6, 1)
    query = struct.pack("!6H", os.getpid() & 0xFFFF, 0, 1, 0, 0, 0) + soa
    with contextlib.suppress(OSError):  # refused while nobody listens yet, or not answered yet
        asker.send(query)
        return asker.recv(512)[:2] == query[:2]
    return False


def _http_answers(plan: Plan) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, plan.http_port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """An event that the signals which end a program set, instead of ending it in the middle of something."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
