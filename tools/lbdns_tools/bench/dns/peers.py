"""Compares the maximum query rate and the CPU time per query of lbdns and other DNS servers, each on one core.

The benchmark puts one server at a time under load, and each ratio compares figures from the same round. CPU time is the
user and system time of all processes and threads of a server. All servers listen on a wildcard address and receive
queries with EDNS for best.hobbit and round.robin.hobbit. For both names, lbdns balances load across three members that
report every second. The other servers serve a fixed alias with TTL 0 instead. The figure 'busy' is the server's CPU use
as a share of one core. If 'busy' is well below 100 %, the load generator was the bottleneck, and only the CPU time per
query can be compared.

With --also, the benchmark includes the lbdns in another checkout. The other lbdns runs in the Python interpreter of
that checkout's .venv or, if there is no .venv, in the current interpreter. With both --also and --compare-planes,
versions of lbdns are compared on the same plane.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import BEST, ROUND_ROBIN, LbdnsProgram
from lbdns_tools.bench.dns.compared_servers import PEERS, MeasuredServer, serving_beside_peers
from lbdns_tools.bench.dns.dnsperf import DnsperfRun, run_dnsperf, write_queries
from lbdns_tools.bench.dns.latency_prober import answered_names, await_answer, cookie_option, query_wire
from lbdns_tools.bench.measured_processes import BenchmarkError

TAKES: Final = "about 3 minutes (--rounds x servers x (--seconds + warm-up))"
EXAMPLE: Final = "--rounds 7 --peers nsd --also old=../lbdns-1.0 --json peers.json"
WARM_UP: Final = 0.5  # seconds of load before each measured run
NAMES: Final = {"best": [BEST], "round.robin": [ROUND_ROBIN], "both": [BEST, ROUND_ROBIN]}


def measure_server(server: MeasuredServer, run: DnsperfRun) -> dict[str, float]:
    """Put one server under load and return its figures. ``busy`` is the server's CPU use as a fraction of one core.

    Raises BenchmarkError.
    """
    run_dnsperf(replace(run, seconds=WARM_UP))
    before, begin = server.process.cpu_seconds(), time.monotonic()
    found = run_dnsperf(run)
    cpu, took = server.process.cpu_seconds() - before, time.monotonic() - begin
    if not found.answered or set(found.rcodes) != {"NOERROR"}:
        raise BenchmarkError(
            f"{server.process.name} must answer every query with NOERROR, but sent {found.rcodes or 'nothing'}"
        )
    return {
        "queries_per_s": found.rate,
        "cpu_us_per_query": 1e6 * cpu / found.answered,
        "busy": cpu / took,
        "answered": found.answered,
        "lost": found.lost,
    }


def lbdns_servers(options: argparse.Namespace) -> dict[str, tuple[str, LbdnsProgram]]:
    """Return the lbdns servers to measure, keyed by their names in the results. The values are pairs of the setting
    ``plane`` and the program."""
    programs = {"lbdns": LbdnsProgram(), **{label: LbdnsProgram(path) for label, path in options.also}}
    if options.compare_planes:
        return {f"{name} {plane}": (plane, one) for name, one in programs.items() for plane in ("python", "native")}
    return {name: (options.plane, one) for name, one in programs.items()}


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    queries = write_queries(folder / "queries", NAMES[options.names])
    rounds: list[dict[str, dict[str, float]]] = []
    peers = options.peers + (["coredns"] if options.coredns else [])
    with serving_beside_peers(
        lbdns_servers(options), peers, folder, options.server_core, coredns=options.coredns, ttl=options.peer_ttl
    ) as servers:
        answers = {name: answered_names(await_answer(one.port, query_wire(*BEST), 5)) for name, one in servers.items()}
        for number in command.rounds(options.rounds):
            rounds.append({})
            # The first server of a round has the coldest processor, so every other round reverses the order
            for name in list(servers)[:: -1 if number % 2 else 1]:
                server = servers[name]
                edns = ("-E", cookie_option(server.port)) if options.cookies else ("-e",)
                run = DnsperfRun(server.port, queries, options.load_core, seconds=options.seconds, options=edns)
                rounds[-1][name] = measure_server(server, run)
        notes = [f"{name}: {one.note}" for name, one in servers.items() if one.note]
    return {
        "note": "; ".join(notes) + ("; with cookies" if options.cookies else ""),
        "names": options.names,
        "answers": answers,
        "servers": summary(rounds),
        "rounds": rounds,
    }


def reference(name: str, names: Sequence[str]) -> str:
    """Return the name of the server with which ``name`` is compared. For an lbdns from another checkout, this is the
    current lbdns on the same plane if that was measured. Otherwise, it is the first server."""
    on_plane = f"lbdns {name.rpartition(' ')[2]}"
    return on_plane if on_plane in names and name not in ("lbdns python", "lbdns native") else names[0]


def summary(rounds: list[dict[str, dict[str, float]]]) -> dict[str, command.Results]:
    """Return each server's medians across rounds. Each ratio is the figure of the reference server divided by the
    figure of the measured server."""
    columns = {name: [samples[name] for samples in rounds] for name in rounds[0]}
    rate = {name: [one["queries_per_s"] for one in column] for name, column in columns.items()}
    cost = {name: [one["cpu_us_per_query"] for one in column] for name, column in columns.items()}
    first = {name: reference(name, list(columns)) for name in columns}
    return {
        name: {
            "queries_per_s": round(statistics.median(rate[name])),
            "cpu_us_per_query": round(statistics.median(cost[name]), 2),
            "busy_percent": round(100 * statistics.median(one["busy"] for one in column)),
            "lost": sum(one["lost"] for one in column),
            "rate_ratio": command.median_ratio(rate[first[name]], rate[name]),
            "cpu_ratio": command.median_ratio(cost[first[name]], cost[name]),
        }
        for name, column in columns.items()
    }


def tables(results: command.Results) -> command.Tables:
    heads = ("server", "queries/s", "CPU us/query", "busy %", "lost", "lbdns / it: rate", "lbdns / it: CPU")
    rows = [(name, *found.values()) for name, found in results["servers"].items()]
    return [command.table(f"{results['names']}, median of {len(results['rounds'])} rounds", heads, rows)]


def _checkout(text: str) -> tuple[str, Path]:
    label, _, path = text.partition("=")
    if not label or not path or label in ("lbdns", *PEERS):
        raise argparse.ArgumentTypeError(
            f"must be LABEL=PATH with an unused label, for example old=../lbdns-1.0, not {text!r}"
        )
    return label, Path(path).resolve()


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--rounds", int, 1, 50, 5, "number of rounds; each round measures every server")
    command.add_number(parser, "--seconds", float, 0.5, 60, 5, "seconds per run")
    parser.add_argument("--names", choices=NAMES, default="both", help="names to query (default: both)")
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=list(PEERS),
        default=list(PEERS),
        help="servers to compare lbdns with (default: all except CoreDNS)",
    )
    parser.add_argument(
        "--coredns", type=Path, metavar="PATH", help="also compare lbdns with the CoreDNS binary at PATH"
    )
    parser.add_argument(
        "--also", type=_checkout, action="append", default=[], metavar="LABEL=PATH",
        help="also measure the version of lbdns in the checkout at PATH, and call it LABEL in the results; repeatable",
    )  # fmt: skip
    parser.add_argument("--cookies", action="store_true", help="send the server's cookie with each query")
    parser.add_argument(
        "--compare-planes", action="store_true", help="measure each lbdns on both the python plane and the native plane"
    )
    command.add_number(
        parser,
        "--peer-ttl",
        int,
        0,
        86400,
        0,
        "TTL of the peers' alias, in seconds; PowerDNS caches the answer unless the TTL is 0",
    )
    command.add_dns_options(parser)
