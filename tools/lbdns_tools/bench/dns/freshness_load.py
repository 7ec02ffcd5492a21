"""Freshness under load: report to changed answer while dnsperf keeps the server at a share of its maximum rate.

The maximum is found first, then lbdns_tools.bench.freshness runs beside the load: each report makes its sender the best
member, and the time is taken until the first answer that names it. The asking itself waits in the server's queue with
the load's queries, so one latency under load is in every figure.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from lbdns.keys import new_master_key
from lbdns_tools.bench.dns import command
from lbdns_tools.bench.dns.dnsperf import Run, beside, load, write_queries
from lbdns_tools.bench.dns.prober import await_answer, query_wire
from lbdns_tools.bench.dns.processes import BenchError, come_first, running
from lbdns_tools.bench.dns.servers import START
from lbdns_tools.bench.freshness import Client, send_and_watch, write_farm
from lbdns_tools.bench.measuring import percentile
from lbdns_tools.ports import free_port

TAKES: Final = "about 30 s (3 s + reports x interval / agents)"
TARGET: Final = 20.0  # ms, the 99th percentile
FIND: Final = 2.0  # seconds of load that find the maximum rate
TAIL: Final = 3.0  # seconds the load goes on after the last report is due, at least
LONGEST: Final = 300.0  # seconds


def measure(options: argparse.Namespace, folder: Path) -> command.Figures:
    seconds = options.reports * options.interval / options.agents
    if seconds > LONGEST:
        raise BenchError(f"{options.reports} reports take {seconds:.0f} s; at most {LONGEST:g} s: ask for fewer")
    key = new_master_key()
    ports = free_port(), free_port()
    config = write_farm(folder, options.agents, key, ports, options.plane)
    queries = write_queries(folder / "queries", [("best.bench", "A")])
    words = [sys.executable, "-m", "lbdns", "serve", "-c", str(config), "--log-level", "error"]
    with running("lbdns", words, options.server_core, folder / "log") as server:
        await_answer(ports[0], query_wire("best.bench"), START, step=0.05)
        most = load(Run(ports[0], queries, options.load_core, seconds=FIND)).rate
        come_first()
        run = Run(ports[0], queries, options.load_core, seconds=LONGEST + TAIL, rate=most * options.share)
        with beside(run) as background:
            times = send_and_watch(Client(ports[0]), ports[1], key, options.agents, options.reports, options.interval)
            if background.ended:
                raise BenchError("dnsperf ended before the last report: these figures are not of a loaded server")
        server.demand_alive()
    lost = sum(map(math.isinf, times))
    figures = {f"p{percent}_ms": round(percentile(times, percent / 100), 3) for percent in (50, 95, 99, 100)}
    return {"max_per_s": round(most), "load_per_s": round(most * options.share), "lost": lost, **figures}


def show(figures: command.Figures, console: Console) -> None:
    rows = [(name.replace("_", " "), value) for name, value in figures.items()]
    console.print(command.table(f"report to changed answer under load (target: p99 {TARGET:g} ms)", ("", ""), rows))


def main() -> int:
    made = command.parser("freshness_load", __doc__, TAKES, "--reports 1000")
    command.bound(made, "--agents", int, 1, 200, 3, "agents that report")
    command.bound(made, "--reports", int, 1, 20_000, 400, "reports over all agents")
    command.bound(made, "--interval", float, 0.05, 10, 0.2, "seconds between two reports of one agent")
    command.bound(made, "--share", float, 0.05, 1, 0.8, "share of the maximum rate")
    return command.run(made, measure, show)


if __name__ == "__main__":
    sys.exit(main())
