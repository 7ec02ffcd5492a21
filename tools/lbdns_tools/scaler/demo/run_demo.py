"""Runs the scaler's demo: a DNS server, the scaler, and load that rises and falls; prints what happens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from lbdns.client.dns_client import ask, make_query
from lbdns.client.http_client import HttpLocation, fetch
from lbdns.demo import ports
from lbdns.demo.child_processes import ChildProcesses
from lbdns.demo.ports import RequiredPort
from lbdns.process.stop_signals import StopSignals, stop_signals
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.demo import demo_files
from lbdns_tools.scaler.demo.demo_files import LOOPBACK, ScalerDemoPlan
from lbdns_tools.scaler.providers.provider import Provider
from lbdns_tools.scaler.running.status_server import STATUS_PATH
from lbdns_tools.scaler.running.terminal_view import PROGRESS_HEADING, progress_line
from lbdns_tools.scaler.settings.scaler_settings import load_settings

START_TIMEOUT: Final = 60.0  # seconds until the first server is in service
POLL: Final = 0.1  # seconds
SHOW: Final = 5.0  # seconds between two printed lines
STOP_TIMEOUT: Final = 20.0  # seconds until all web servers have ended


def run(plan: ScalerDemoPlan) -> None:
    """Run the demo until the load has ended or a signal arrives. Leaves no process and no file behind.

    Raises ListenError if a port is in use, before any process starts, and LbdnsError if a process ends unexpectedly.
    """
    ports.check(required_ports(plan))
    with stop_signals() as stop, tempfile.TemporaryDirectory(prefix="lbdns-scaler-demo-") as name:
        folder = Path(name)
        demo_files.write(plan, folder)
        with contextlib.ExitStack() as stack:
            stack.callback(remove_servers, folder / "scaler.toml")  # after the scaler has ended
            programs = stack.enter_context(ChildProcesses())
            load = stack.enter_context(ChildProcesses())
            _start(plan, folder, programs)
            if _until(stop, programs, lambda: _in_service(plan) >= 1):
                print(_what_to_see(plan), flush=True)
                load.start("the load", load_command(plan, folder))
                _show(plan, stop, programs)
                print(_load_summary(folder / "load.json"), flush=True)
            print("lbdns-scaler demo: stopping", flush=True)


def required_ports(plan: ScalerDemoPlan) -> Iterator[RequiredPort]:
    """Yield the ports that the demo needs."""
    dns = Endpoint(LOOPBACK, plan.dns_port)
    yield RequiredPort(dns, socket.SOCK_DGRAM, "DNS over UDP", "--dns-port")
    yield RequiredPort(dns, socket.SOCK_STREAM, "DNS over TCP", "--dns-port")
    yield RequiredPort(Endpoint(LOOPBACK, plan.report_port), socket.SOCK_DGRAM, "reports", "--report-port")
    yield RequiredPort(Endpoint(LOOPBACK, plan.http_port), socket.SOCK_STREAM, "the page", "--http-port")
    yield RequiredPort(Endpoint(LOOPBACK, plan.scaler_port), socket.SOCK_STREAM, "the scaler", "--scaler-port")
    yield RequiredPort(Endpoint("127.0.1.1", plan.web_port), socket.SOCK_STREAM, "the web servers", "--web-port")


def _start(plan: ScalerDemoPlan, folder: Path, programs: ChildProcesses) -> None:
    python, level = (sys.executable, "-m"), ("--log-level", plan.log_level)
    programs.start("the DNS server", [*python, "lbdns", "serve", "-c", str(folder / "lbdns.toml"), *level])
    scaler = [*python, "lbdns_tools.scaler", "run", "-c", str(folder / "scaler.toml"), *level]
    programs.start("the scaler", scaler)


def load_command(plan: ScalerDemoPlan, folder: Path) -> list[str]:
    """Return the command that sends the demo's load, and writes its results to load.json."""
    server = f"{LOOPBACK}:{plan.dns_port}"
    return [
        sys.executable, "-m", "lbdns_tools.load", f"http://best.hobbit:{plan.web_port}/work?ms=5", "--resolver", server,
        "--trace", str(folder / "load.csv"), "--seconds", f"{plan.load_seconds:g}", "--json", str(folder / "load.json"),
        "--quiet",
    ]  # fmt: skip


def _until(stop: StopSignals, programs: ChildProcesses, condition: Any) -> bool:
    """Return True as soon as the condition holds, or False if a signal stops the demo first. Raises LbdnsError."""
    end = time.monotonic() + START_TIMEOUT
    while not stop.is_set():
        if ending := programs.first_end():
            raise LbdnsError(f"lbdns-scaler demo: {ending}, so the demo stops")
        if condition():
            return True
        if time.monotonic() > end:
            raise LbdnsError(f"lbdns-scaler demo: no server is in service after {START_TIMEOUT:.0f} s")
        stop.wait(POLL)
    return False


def _status(plan: ScalerDemoPlan) -> dict[str, Any]:
    """Return the scaler's status document, or an empty one if it does not respond yet."""
    with contextlib.suppress(LbdnsError, ValueError):
        document = json.loads(fetch(HttpLocation(f"http://{LOOPBACK}:{plan.scaler_port}"), STATUS_PATH))
        if isinstance(document, dict):
            return document
    return {}


def _in_service(plan: ScalerDemoPlan) -> int:
    with contextlib.suppress(LbdnsError):
        ask(make_query("best.hobbit"), Endpoint(LOOPBACK, plan.dns_port), timeout=POLL, tries=1)
        return int(_status(plan).get("counts", {}).get("in service", 0))
    return 0


def _show(plan: ScalerDemoPlan, stop: StopSignals, programs: ChildProcesses) -> None:
    """Print a line every few seconds until the demo's time is over."""
    print(f"seconds  {PROGRESS_HEADING}", flush=True)
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < plan.seconds and not stop.is_set():
        if ending := programs.first_end():
            raise LbdnsError(f"lbdns-scaler demo: {ending}, so the demo stops")
        if status := _status(plan):
            print(f"{elapsed:7.0f}  {progress_line(status)}", flush=True)
        stop.wait(SHOW)


def _load_summary(path: Path) -> str:
    """Return a summary: the number of requests and of failures, or a note that the load was interrupted."""
    try:
        runs = [run for point in json.loads(path.read_text("utf-8"))["points"] for run in point["runs"]]
        total, failed = sum(run["requests"] for run in runs), sum(run["failed"] for run in runs)
    except (OSError, ValueError, KeyError):
        return "the load was interrupted"
    return f"{total} requests, {failed} failed"


def remove_servers(config: Path) -> None:
    """Delete all servers of the demo, and wait until their processes have ended."""
    asyncio.run(_remove_all(load_settings(config).provider.make_provider()))


async def _remove_all(provider: Provider) -> None:
    end = time.monotonic() + STOP_TIMEOUT
    while (machines := await provider.machines()) and time.monotonic() < end:
        for machine in machines:
            await provider.delete(machine.name)
        await asyncio.sleep(POLL)
    await provider.close()


def _what_to_see(plan: ScalerDemoPlan) -> str:
    url = f"http://{LOOPBACK}:{plan.scaler_port}"
    return f"""\
lbdns-scaler demo: the first server is in service; the demo ends after {plan.seconds:.0f} s (Ctrl-C ends it earlier)

  page     http://{LOOPBACK}:{plan.http_port}/
  answers  lbdns ask best.hobbit @{LOOPBACK}:{plan.dns_port}
  servers  lbdns-scaler status --url {url}
  metrics  {url}/metrics

The load rises from {plan.lowest:g} to {plan.highest:g} requests/s and falls again. Each server may get \
{plan.capacity:g} requests/s.
"""
