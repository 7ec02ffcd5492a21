"""A flood of malformed UDP beside good queries: does the server still answer, stay in its memory, and log nothing?

One process sends malformed datagrams of many kinds as fast as it can; this process sends good queries at a modest rate
and takes the kernel's timestamp of each answer. The same rate without the flood comes first. The flood and the good
queries share the server's receive buffer, so a server that can't keep up loses some of both; NSD under the same flood
shows what a fast server achieves. As root, the prober has priority over the generator; otherwise latencies are less
precise.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import BEST, LbdnsProgram
from lbdns_tools.bench.dns.compared_servers import MeasuredServer, serving_beside_peers
from lbdns_tools.bench.dns.latency_prober import MAX_RATE, ProbeResult, probe, query_wire
from lbdns_tools.bench.dns.malformed_datagrams import flooding
from lbdns_tools.bench.measured_processes import take_priority

TAKES: Final = "about 3 minutes (2 servers x (seconds + 15 s))"
EXAMPLE: Final = "--seconds 60 --rate 200"
CALM: Final = 10.0  # seconds of good queries alone, before the flood
WARM_UP: Final = 2.0  # seconds of flood before the first reading of the memory
PATIENCE: Final = 20.0  # seconds the generator may run longer than requested


def flood_server(server: MeasuredServer, options: argparse.Namespace) -> command.Results:
    """Return the figures of one server, before and during the flood."""
    query, process, log = query_wire(*BEST), server.process, server.process.log.with_suffix(".flood")
    calm = probe(server.port, query, options.rate, CALM)
    with flooding(server.port, options.load_core, options.seed, WARM_UP, log) as warming:
        warming.process.wait(WARM_UP + PATIENCE)
    before, lines, cpu = process.rss(), process.log_lines(), process.cpu_seconds()
    with flooding(server.port, options.load_core, options.seed, options.seconds, log) as generator:
        beside = probe(server.port, query, options.rate, options.seconds)
        generator.process.wait(PATIENCE)
    sent = int(log.read_text())
    return {
        **_latencies("calm_", calm),
        **_latencies("", beside),
        "malformed_per_s": round(sent / options.seconds),
        "cpu_percent": round(100 * (process.cpu_seconds() - cpu) / options.seconds),
        "rss_before_mb": round(before / 1e6, 2),
        "rss_after_mb": round(process.rss() / 1e6, 2),
        "log_lines": process.log_lines() - lines,
    }


def _latencies(prefix: str, probes: ProbeResult) -> command.Results:
    figures = {"p50_ms": probes.p(50), "p99_ms": probes.p(99), "queries": probes.sent, "lost": probes.lost}
    return {prefix + name: value for name, value in figures.items()}


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    precise = take_priority()
    servers: dict[str, command.Results] = {}
    lbdns = {"lbdns": (options.plane, LbdnsProgram())}
    with serving_beside_peers(lbdns, [] if options.alone else ["nsd"], folder, options.server_core) as running:
        for name, server in running.items():
            servers[name] = flood_server(server, options)
    note = running["lbdns"].note
    return {"note": note + ("" if precise else "; not root: latencies are less precise"), "servers": servers}


def tables(results: command.Results) -> command.Tables:
    return [command.side_by_side("good queries beside malformed ones", results["servers"])]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--seconds", float, 1, 3600, 60, "seconds of flood")
    command.add_number(parser, "--rate", float, 1, MAX_RATE, 200, "good queries/s")
    command.add_number(parser, "--seed", int, 0, 2**31, 1, "seed of the malformed datagrams")
    parser.add_argument("--alone", action="store_true", help="without NSD")
    command.add_dns_options(parser)
