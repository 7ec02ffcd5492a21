"""Measures how well lbdns-scaler scales a farm while a load from a 2014 study rises and falls. The figures are the time
from demand to the first answer that names a new server, the number of failed requests, and the number of servers that
were stopped while clients used them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from lbdns.client.dns_client import ask, make_query
from lbdns.client.http_client import HttpLocation, fetch
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.free_ports import free_ports
from lbdns_tools.scaler.demo import demo_files
from lbdns_tools.scaler.demo.demo_files import LOOPBACK, ScalerDemoPlan
from lbdns_tools.scaler.demo.run_demo import load_command, remove_servers
from lbdns_tools.scaler.running.status_server import STATUS_PATH

TAKES: Final = "about 4 min"
EXAMPLE: Final = "--seconds 90 --highest 30"
TARGET_TEXT: Final = "no failed request, and no server stopped while it had connections"
START: Final = 60.0  # seconds until the first server is in service
AFTER: Final = 60.0  # seconds after the load until only the minimum is in service
LOOK: Final = 0.1  # seconds between two readings of the status


class FarmWatch:
    """A record of what the scaler's status and the answers show over time."""

    def __init__(self, plan: ScalerDemoPlan) -> None:
        self._plan = plan
        self._server = HttpLocation(f"http://{LOOPBACK}:{plan.scaler_port}")
        self.most = 0  # servers in service at the same time
        self.removed: dict[str, str] = {}  # why each server's draining ended, by name
        self.wanted_at: float | None = None  # monotonic time at which more than one server was wanted
        self.named_at: float | None = None  # ... and at which an answer named another server than the first
        self.status: dict[str, Any] = {}
        self._first = ""

    @property
    def in_service(self) -> int:
        """The number of servers in service now."""
        return int(self.status.get("counts", {}).get("in service", 0))

    def look(self) -> None:
        """Read the status and, until an answer names a second server, send a query."""
        with contextlib.suppress(LbdnsError):
            self.status = json.loads(fetch(self._server, STATUS_PATH))
        self.most = max(self.most, self.in_service)
        for server in self.status.get("servers", ()):
            if server["state"] in ("stopping", "stopped", "deleting") and server["reason"].startswith("drained"):
                self.removed[server["name"]] = server["reason"]
        if self.wanted_at is None and (self.status.get("wanted") or 0) > 1:
            self.wanted_at = time.monotonic()
        if self.named_at is None:
            self._ask()

    def _ask(self) -> None:
        query, server = make_query("best.hobbit"), Endpoint(LOOPBACK, self._plan.dns_port)
        with contextlib.suppress(LbdnsError):
            answers = ask(query, server, timeout=LOOK, tries=1).message.rr
            names = [str(record.rdata) for record in answers if record.rtype == 1]
            self._first = self._first or "".join(names[:1])
            if names and names[0] != self._first:
                self.named_at = time.monotonic()

    def until(self, condition: str, seconds: float, process: subprocess.Popen[bytes] | None = None) -> None:
        """Call ``look`` until ``process`` has ended or, without a process, until exactly one server is in service.
        ``condition`` describes this state in the LbdnsError raised after ``seconds``."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            if (process and process.poll() is not None) or (not process and self.in_service == 1):
                return
            time.sleep(LOOK)
        raise LbdnsError(f"not within {seconds:g} s: {condition}; the scaler's status: {self.status}")


@contextlib.contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a module of this project within a with block."""
    process = subprocess.Popen([sys.executable, "-m", *words])
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    dns, reports, http, scaler, web = free_ports(5)
    plan = ScalerDemoPlan(dns, reports, http, scaler, web, highest=options.highest, seconds=options.seconds)
    demo_files.write(plan, folder)
    level = "--log-level", "error"
    with contextlib.ExitStack() as stack:
        stack.callback(remove_servers, folder / "scaler.toml")
        stack.enter_context(running("lbdns", "serve", "-c", str(folder / "lbdns.toml"), *level))
        stack.enter_context(running("lbdns_tools.scaler", "run", "-c", str(folder / "scaler.toml"), *level))
        watch = FarmWatch(plan)
        watch.until("the first server is in service", START)
        load = stack.enter_context(running(*load_command(plan, folder)[2:]))
        watch.until("the load ends", plan.load_seconds + AFTER, load)
        watch.until("one server is left", AFTER)
    (run,) = json.loads((folder / "load.json").read_text("utf-8"))["points"][0]["runs"]
    cut = [name for name, why in watch.removed.items() if "no connection" not in why]
    waited = (watch.named_at or 0.0) - (watch.wanted_at or 0.0)
    return {
        "requests": run["requests"], "failed": run["failed"], "most_servers": watch.most,
        "removed": len(watch.removed), "removed_with_connections": len(cut), "wanted_to_answer_s": round(waited, 2),
        "met": run["failed"] == 0 and not cut and watch.most > 1,
    }  # fmt: skip


def tables(results: command.Results) -> command.Tables:
    return [command.figures("a farm whose size follows its load", results)]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--seconds", float, 60, 3600, 180, "duration of the whole run, in seconds")
    command.add_number(parser, "--highest", float, 5, 60, 50, "highest load in requests/s")
