"""Measures freshness under load: the time from a report until the answer changes, while dnsperf sends queries.

The benchmark finds the server's maximum query rate and then applies a fraction of that rate as the load. Each report
makes its sender the best member. The benchmark measures the time until an answer first names the sender. The queries
that detect the changed answer wait in the same queue as the load. Every figure therefore includes the latency of one
answer under load.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.answer_freshness import QUERY, FreshnessFarm, freshness_figures
from lbdns_tools.bench.dns.compared_servers import START
from lbdns_tools.bench.dns.dnsperf import DnsperfRun, dnsperf_beside, run_dnsperf, write_queries
from lbdns_tools.bench.dns.latency_prober import await_answer
from lbdns_tools.bench.measured_processes import BenchmarkError, running, take_priority

TAKES: Final = "about 30 s (3 s + --reports x --interval / --agents)"
EXAMPLE: Final = "--reports 1000"
TARGET: Final = 20.0  # ms, the 99th percentile
TARGET_TEXT: Final = f"p99 at most {TARGET:g} ms"
FIND: Final = 2.0  # seconds of load to find the maximum rate
TAIL: Final = 3.0  # minimum seconds of load after the last report is due
LONGEST: Final = 300.0  # seconds


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    seconds = options.reports * options.interval / options.agents
    if seconds > LONGEST:
        raise BenchmarkError(f"{options.reports} reports would take {seconds:.0f} s, but the limit is {LONGEST:g} s")
    farm = FreshnessFarm(folder, options.agents, options.plane)
    queries = write_queries(folder / "queries", [("best.bench", "A")])
    with running("lbdns", farm.command, options.server_core, folder / "log") as server:
        await_answer(farm.port, QUERY, START)
        most = run_dnsperf(DnsperfRun(farm.port, queries, options.load_core, seconds=FIND)).rate
        take_priority()
        load_rate = most * options.share
        run = DnsperfRun(farm.port, queries, options.load_core, seconds=LONGEST + TAIL, rate=load_rate)
        with dnsperf_beside(run) as load:
            times = farm.send_and_watch(options.reports, options.interval)
            if load.ended:
                raise BenchmarkError(
                    "dnsperf finished before the last report, so part of the measurement ran without load"
                )
        server.require_alive()
    return {"max_per_s": round(most), "load_per_s": round(load_rate), **freshness_figures(times, TARGET)}


def tables(results: command.Results) -> command.Tables:
    return [command.figures("time from a report until the answer changes, under load", results)]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--agents", int, 1, 200, 3, "number of agents")
    command.add_number(parser, "--reports", int, 1, 20_000, 400, "total number of reports from all agents")
    command.add_number(parser, "--interval", float, 0.05, 10, 0.2, "seconds between two reports from the same agent")
    command.add_number(parser, "--share", float, 0.05, 1, 0.8, "load, as a share of the maximum query rate")
    command.add_dns_options(parser)
