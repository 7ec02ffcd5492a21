"""Runs the demo (a DNS server with its collector, three web servers and their agents), and prints commands to try."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from lbdns.client.dns_client import ask, make_query
from lbdns.demo import farm_files, ports
from lbdns.demo.child_processes import ChildProcesses
from lbdns.demo.farm_files import LOOPBACK, DemoPlan
from lbdns.process.stop_signals import StopSignals, stop_signals
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError

START_TIMEOUT: Final = 30.0  # seconds: many times what the server needs on a slow machine
_POLL: Final = 0.05  # seconds between checks of the children


def run(plan: DemoPlan, seconds: float | None) -> None:
    """Run the demo until SIGINT, SIGTERM or SIGHUP arrives.

    If ``seconds`` is given, the demo ends no later than ``seconds`` seconds after it becomes ready.

    If a port is in use, ListenError is raised before any process starts. If a demo process ends unexpectedly,
    LbdnsError is raised.
    """
    ports.check(ports.required_ports(plan))
    with (
        stop_signals() as stop,
        tempfile.TemporaryDirectory(prefix="lbdns-demo-") as folder,
        ChildProcesses() as servers,
        ChildProcesses() as agents,  # stop first, so that the collector receives their last reports
    ):
        began = time.monotonic()
        config = farm_files.write(plan, Path(folder))
        _start(plan, config, servers, agents)
        if not _until_it_answers(plan, (servers, agents), stop):
            return
        print(_what_to_try(plan, config, time.monotonic() - began), flush=True)
        end = math.inf if seconds is None else time.monotonic() + seconds
        while not stop.wait(_POLL) and time.monotonic() < end:
            _check_running((servers, agents))
        print("lbdns demo: stopping", flush=True)


def _start(plan: DemoPlan, config: Path, servers: ChildProcesses, agents: ChildProcesses) -> None:
    python, level = (sys.executable, "-m"), ("--log-level", plan.log_level)
    servers.start("the DNS server", [*python, "lbdns", "serve", "-c", str(config), *level])
    gateway = LOOPBACK if _may_ping() else "off"
    for host in plan.hosts:
        listen = [word for endpoint in plan.web_endpoints(host) for word in ("--listen", str(endpoint))]
        servers.start(f"web server {host.name}", [*python, "lbdns.demo.webserver", "--name", host.name, *listen])
    for host in plan.hosts:
        options = {
            "--collector": f"{LOOPBACK}:{plan.report_port}",
            "--name": host.name,
            "--key-file": str(farm_files.key_file(config.parent, host)),
            "--interval": str(plan.interval),
            "--server-status": f"http://{plan.web_endpoints(host)[0]}/server-status?auto",
            "--gateway": gateway,
        }
        words = [word for option in options.items() for word in option]
        agents.start(f"the agent of {host.name}", [*python, "lbdns_agent", *words, *level])


def _may_ping() -> bool:
    """Return whether this user may send ICMP echo requests.

    Without this permission, the agents do not ping the gateway.
    """
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, kind, socket.getprotobyname("icmp")):
            return True
    return False


def _check_running(groups: Iterable[ChildProcesses]) -> None:
    for group in groups:
        if ending := group.first_end():
            raise LbdnsError(f"lbdns demo: {ending}, so the demo stops")


def _until_it_answers(plan: DemoPlan, groups: Iterable[ChildProcesses], stop: StopSignals) -> bool:
    """Return True as soon as the server answers over DNS and HTTP, or False if a signal stops the demo first."""
    end = time.monotonic() + START_TIMEOUT
    while not stop.is_set():
        _check_running(groups)
        if _answers(plan):
            return True
        if time.monotonic() > end:
            raise LbdnsError(f"lbdns demo: the DNS server did not answer within {START_TIMEOUT:.0f} s")
        stop.wait(_POLL / 2)
    return False


def _answers(plan: DemoPlan) -> bool:
    """Return whether the server answers over DNS and HTTP. If a connection is refused, the server is not ready yet."""
    with contextlib.suppress(LbdnsError, OSError):
        ask(make_query("hobbit", "SOA"), Endpoint(LOOPBACK, plan.dns_port), timeout=_POLL, tries=1)
        with socket.create_connection((LOOPBACK, plan.http_port), timeout=1):
            return True
    return False


def _what_to_try(plan: DemoPlan, config: Path, seconds: float) -> str:
    """Return the text to print when the demo is ready. ``seconds`` is the duration of the demo's startup."""
    program = _program()
    reverse = f"ask -x {plan.hosts[0].addresses[0]} +short"
    first = plan.web_endpoints(plan.hosts[0])[0]
    urls = ("  ".join(f"http://{endpoint}/" for endpoint in plan.web_endpoints(host)) for host in plan.hosts)
    webs = "\n".join(f"    {host.name:<8} {text}" for host, text in zip(plan.hosts, urls, strict=True))
    return f"""\
lbdns demo: ready after {seconds:.1f} s; Ctrl-C stops the demo

  DNS        {LOOPBACK}:{plan.dns_port} (UDP and TCP), zone hobbit and its reverse zone
  page       http://{LOOPBACK}:{plan.http_port}/
  reports    {LOOPBACK}:{plan.report_port}, signed, every {plan.interval:g} s from each of three agents
  web servers, the members of the pool:
{webs}

Try, in another terminal{", in this directory" if "/" in program and not program.startswith("/") else ""}:
  export LBDNS_CONFIG={config}
  {program} ask best.hobbit                  the best server now
  {program} ask round.robin.hobbit +short    each member in turn
  {program} {reverse:<32} the reverse zone
  {program} explain best.hobbit              why
  {program} status
  {program} top
  {program} drain {plan.hosts[0].name} --for 1min --reason 'just trying'
  {program} watch
With dig:
  dig @{LOOPBACK} -p {plan.dns_port} best.hobbit
Put one web server under load, then repeat the query:
  for i in 1 2 3 4 5; do curl -s 'http://{first}/work?ms=2000' > /dev/null & done
"""


def _program() -> str:
    """Return the shortest command that runs this copy of lbdns in another terminal, in the same directory."""
    path = Path(sys.argv[0])
    if path.name != "lbdns":
        return "lbdns"
    # The PATH of another terminal lacks an activated virtual environment
    if not os.environ.get("VIRTUAL_ENV") and shutil.which("lbdns") == str(path.absolute()):
        return "lbdns"
    with contextlib.suppress(ValueError):
        return str(path.absolute().relative_to(Path.cwd()))
    return str(path)
