"""Latency of an answer at half of each server's maximum rate, lbdns and NSD in the same run.

Each round measures a server's maximum rate, then loads it with half of that by dnsperf for some seconds. Two figures:
'kernel' is of a prober that asks beside dnsperf, from its send until the kernel has the answer, so no scheduling of the
load's core is in it; 'dnsperf' is what dnsperf itself saw for each of its queries, its own waiting included. The ratio
that counts is the kernel's p99.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from lbdns_tools.bench.dns import command
from lbdns_tools.bench.dns.dnsperf import MARGIN, Run, beside, latencies, load, write_queries
from lbdns_tools.bench.dns.farm import BEST, ROUND_ROBIN, Farm
from lbdns_tools.bench.dns.prober import MAX_RATE, probe, query_wire
from lbdns_tools.bench.dns.processes import come_first
from lbdns_tools.bench.dns.servers import PEERS, Served, serving_lbdns, serving_peer
from lbdns_tools.bench.measuring import percentile

TAKES: Final = "about 80 s (rounds x servers x (3 s + seconds))"
FIND: Final = 2.0  # seconds of load that find the maximum rate
SETTLE: Final = 0.5  # seconds of load before the prober begins, and after it ends
FIGURES: Final = (
    "max_per_s",
    "load_per_s",
    "lost",
    "kernel_p50_ms",
    "kernel_p99_ms",
    "dnsperf_p50_ms",
    "dnsperf_p99_ms",
)


def half_loaded(served: Served, queries: Path, options: argparse.Namespace) -> dict[str, float]:
    """The figures of one server in one round."""
    most = load(Run(served.port, queries, options.load_core, seconds=FIND)).rate
    run = Run(
        served.port,
        queries,
        options.load_core,
        seconds=options.seconds + 2 * SETTLE,
        rate=most * options.share,
        options=("-e", "-v"),
    )
    with beside(run) as background:
        probe(served.port, query_wire(*BEST), options.rate, SETTLE)
        probes = probe(served.port, query_wire(*BEST), options.rate, options.seconds)
        text = background.output(run.seconds + MARGIN)
    own = latencies(text)
    found = (most, len(own) / run.seconds, probes.lost, probes.p(50), probes.p(99))
    return dict(zip(FIGURES, (*found, percentile(own, 0.5), percentile(own, 0.99)), strict=True))


def measure(options: argparse.Namespace, folder: Path) -> command.Figures:
    come_first()
    queries = write_queries(folder / "queries", (BEST, ROUND_ROBIN))
    place = folder / "lbdns"
    place.mkdir()
    rounds: dict[str, list[dict[str, float]]] = {}
    with contextlib.ExitStack() as stack:
        servers = {"lbdns": stack.enter_context(serving_lbdns(Farm(place, plane=options.plane), options.server_core))}
        for name in options.peers:
            servers[name] = stack.enter_context(serving_peer(name, folder / name, options.server_core))
        for number in range(options.rounds):
            command.progress(f"round {number + 1} of {options.rounds}")
            for name, served in servers.items():
                rounds.setdefault(name, []).append(half_loaded(served, queries, options))
        note = servers["lbdns"].note
    return {"note": note, "servers": summary(rounds), "rounds": rounds}


def summary(rounds: dict[str, list[dict[str, float]]]) -> dict[str, command.Figures]:
    """Medians over the rounds, and of lbdns's p99 to each server's in the same round."""
    result: dict[str, command.Figures] = {}
    for name, column in rounds.items():
        result[name] = {key: round(statistics.median(one[key] for one in column), 3) for key in FIGURES}
        for key in ("kernel_p99_ms", "dnsperf_p99_ms"):
            ours, theirs = ([one[key] for one in rounds[server]] for server in ("lbdns", name))
            result[name][f"lbdns_to_it_{key.removesuffix('_ms')}"] = command.ratios(ours, theirs)
    return result


def show(figures: command.Figures, console: Console) -> None:
    heads = list(next(iter(figures["servers"].values())))
    rows = [(head.replace("_", " "), *(found[head] for found in figures["servers"].values())) for head in heads]
    console.print(command.table("latency under load, median of rounds", ("", *figures["servers"]), rows))
    console.print(command.noted(figures))


def main() -> int:
    made = command.parser("latency", __doc__, TAKES, "--rounds 9")
    command.bound(made, "--rounds", int, 1, 50, 5, "rounds over all servers")
    command.bound(made, "--seconds", float, 1, 60, 5, "seconds under load in each round")
    command.bound(made, "--share", float, 0.05, 0.95, 0.5, "share of the maximum rate")
    command.bound(made, "--rate", float, 1, MAX_RATE, 1000, "queries/s of the prober")
    made.add_argument("--peers", nargs="*", choices=list(PEERS), default=["nsd"], help="default: nsd")
    return command.run(made, measure, show)


if __name__ == "__main__":
    sys.exit(main())
