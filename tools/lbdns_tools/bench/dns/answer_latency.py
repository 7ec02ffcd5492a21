"""Measures the latency of DNS answers at half of each server's maximum query rate, for lbdns and NSD in the same run.

In each round, dnsperf finds each server's maximum rate and then sends queries at half that rate for several seconds. A
prober that runs alongside dnsperf measures the figure 'kernel': the time from sending a query until the kernel receives
the answer. The figure 'kernel' excludes delays on the core that generates the load. The figure 'dnsperf' is the latency
that dnsperf measures for its own queries, including delays in dnsperf itself. The benchmark's result is the ratio of
lbdns's 'kernel' p99 to the other server's 'kernel' p99.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import BEST, ROUND_ROBIN, LbdnsProgram
from lbdns_tools.bench.dns.compared_servers import PEERS, MeasuredServer, serving_beside_peers
from lbdns_tools.bench.dns.dnsperf import MARGIN, DnsperfRun, dnsperf_beside, latencies, run_dnsperf, write_queries
from lbdns_tools.bench.dns.latency_prober import MAX_RATE, latency_figures, probe, query_wire
from lbdns_tools.bench.measured_processes import take_priority

TAKES: Final = "about 80 s (--rounds x servers x (3 s + --seconds))"
EXAMPLE: Final = "--rounds 9"
FIND: Final = 2.0  # seconds of load to find the maximum rate
SETTLE: Final = 0.5  # seconds of load before the prober begins, and after it ends


def latency_at_share(server: MeasuredServer, queries: Path, options: argparse.Namespace) -> dict[str, float]:
    """Return the latency figures for one server in one round, at the requested share of its maximum rate."""
    most = run_dnsperf(DnsperfRun(server.port, queries, options.load_core, seconds=FIND)).rate
    seconds, rate = options.seconds + 2 * SETTLE, most * options.share
    run = DnsperfRun(server.port, queries, options.load_core, seconds=seconds, rate=rate, options=("-e", "-v"))
    with dnsperf_beside(run) as load:
        probe(server.port, query_wire(*BEST), options.rate, SETTLE)
        probes = probe(server.port, query_wire(*BEST), options.rate, options.seconds)
        own = latencies(load.output(seconds + MARGIN))
    return {"max_per_s": most, "load_per_s": len(own) / seconds, "lost": probes.lost, **latency_figures(probes, own)}


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    take_priority()
    queries = write_queries(folder / "queries", (BEST, ROUND_ROBIN))
    rounds: dict[str, list[dict[str, float]]] = {}
    lbdns = {"lbdns": (options.plane, LbdnsProgram())}
    with serving_beside_peers(lbdns, options.peers, folder, options.server_core) as servers:
        for _ in command.rounds(options.rounds):
            for name, server in servers.items():
                rounds.setdefault(name, []).append(latency_at_share(server, queries, options))
    return {"note": servers["lbdns"].note, "servers": summary(rounds), "rounds": rounds}


def summary(rounds: dict[str, list[dict[str, float]]]) -> dict[str, command.Results]:
    """Return each server's median figures, and the median ratio of lbdns's p99 to that server's p99."""
    result: dict[str, command.Results] = {}
    for name, column in rounds.items():
        result[name] = command.medians(column)
        for key in ("kernel_p99_ms", "dnsperf_p99_ms"):
            ours, theirs = ([one[key] for one in rounds[server]] for server in ("lbdns", name))
            result[name][f"lbdns_to_it_{key.removesuffix('_ms')}"] = command.median_ratio(ours, theirs)
    return result


def tables(results: command.Results) -> command.Tables:
    return [command.side_by_side("latency under load (median of all rounds)", results["servers"])]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--rounds", int, 1, 50, 5, "number of rounds; each round measures every server")
    command.add_number(parser, "--seconds", float, 1, 60, 5, "duration of the load in each round, in seconds")
    command.add_number(parser, "--share", float, 0.05, 0.95, 0.5, "load, as a share of the maximum query rate")
    command.add_number(parser, "--rate", float, 1, MAX_RATE, 1000, "queries/s of the prober")
    parser.add_argument(
        "--peers", nargs="*", choices=list(PEERS), default=["nsd"], help="servers to compare lbdns with (default: nsd)"
    )
    command.add_dns_options(parser)
