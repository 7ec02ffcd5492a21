"""Speed beside other servers: queries/s at saturation and CPU time a query, each server alone on one core.

Servers run one after another, round after round; ratios are made within a round, and their median is told. CPU is
user + system time of all the server's processes and threads, divided by the queries answered. All listen on a wildcard
address and are asked with EDNS for best.hobbit and round.robin.hobbit: lbdns balances them over three members whose
reports come in every second, the peers have a fixed alias with TTL 0. 'busy' is the share of its core that the server
used: well below 100 % the generator was the limit, and only CPU a query compares.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from lbdns_tools.bench.dns import command
from lbdns_tools.bench.dns.dnsperf import Run, load, write_queries
from lbdns_tools.bench.dns.farm import BEST, ROUND_ROBIN, Farm
from lbdns_tools.bench.dns.prober import answered_names, await_answer, query_wire, with_cookie
from lbdns_tools.bench.dns.processes import BenchError
from lbdns_tools.bench.dns.servers import PEERS, Served, serving_lbdns, serving_peer

TAKES: Final = "about 3 minutes (rounds x (seconds + warm-up) x servers)"
WARM_UP: Final = 0.5  # seconds of load before each measured run
NAMES: Final = {"best": [BEST], "round.robin": [ROUND_ROBIN], "both": [BEST, ROUND_ROBIN]}


@dataclass(frozen=True, slots=True)
class Sample:
    """One server in one round."""

    queries_per_s: float
    cpu_us_per_query: float
    busy: float  # share of a core
    answered: int
    lost: int


def sample(served: Served, run: Run) -> Sample:
    """Load one server and see what it cost. Raises BenchError."""
    load(Run(run.port, run.queries, run.core, seconds=WARM_UP, options=run.options))
    before, begin = served.running.cpu_seconds(), time.monotonic()
    found = load(run)
    cpu, took = served.running.cpu_seconds() - before, time.monotonic() - begin
    if not found.answered or set(found.rcodes) != {"NOERROR"}:
        raise BenchError(f"{served.running.name} answered {found.rcodes or 'nothing'}, not NOERROR alone")
    return Sample(found.rate, 1e6 * cpu / found.answered, cpu / took, found.answered, found.lost)


def planes(options: argparse.Namespace) -> dict[str, str]:
    """Name in the table -> plane, of each lbdns that takes part."""
    if options.compare_planes:
        return {"lbdns python": "python", "lbdns native": "native"}
    return {"lbdns": options.plane}


@contextlib.contextmanager
def serving_all(options: argparse.Namespace, folder: Path) -> Iterator[dict[str, Served]]:
    """All servers that take part, at once: those that nobody asks cost nothing."""
    with contextlib.ExitStack() as stack:
        served: dict[str, Served] = {}
        for name, plane in planes(options).items():
            place = folder / name.replace(" ", "-")
            place.mkdir()
            served[name] = stack.enter_context(serving_lbdns(Farm(place, plane=plane), options.server_core, name))
        for name in options.peers + (["coredns"] if options.coredns else []):
            peer = serving_peer(name, folder / name, options.server_core, coredns=options.coredns, ttl=options.peer_ttl)
            served[name] = stack.enter_context(peer)
        yield served


def measure(options: argparse.Namespace, folder: Path) -> command.Figures:
    queries = write_queries(folder / "queries", NAMES[options.names])
    rounds: list[dict[str, Sample]] = []
    with serving_all(options, folder) as servers:
        says = {name: answered_names(await_answer(one.port, query_wire(*BEST), 5)) for name, one in servers.items()}
        for number in range(options.rounds):
            command.progress(f"round {number + 1} of {options.rounds}")
            rounds.append({})
            for name, served in servers.items():
                ask = ("-E", with_cookie(served.port)) if options.cookies else ("-e",)
                run = Run(served.port, queries, options.load_core, seconds=options.seconds, options=ask)
                rounds[-1][name] = sample(served, run)
        notes = [f"{name}: {one.note}" for name, one in servers.items() if one.note]
    return {
        "note": "; ".join(notes) + ("; with cookies" if options.cookies else ""),
        "names": options.names,
        "answers": says,
        "servers": summary(rounds),
        "rounds": [{name: asdict(one) for name, one in samples.items()} for samples in rounds],
    }


def summary(rounds: list[dict[str, Sample]]) -> dict[str, command.Figures]:
    """Medians of each server, and of the first server's ratio to it round by round."""
    first = next(iter(rounds[0]))
    columns = {name: [samples[name] for samples in rounds] for name in rounds[0]}
    rate = {name: [one.queries_per_s for one in column] for name, column in columns.items()}
    cost = {name: [one.cpu_us_per_query for one in column] for name, column in columns.items()}
    return {
        name: {
            "queries_per_s": round(statistics.median(rate[name])),
            "cpu_us_per_query": round(statistics.median(cost[name]), 2),
            "busy_percent": round(100 * statistics.median(one.busy for one in column)),
            "lost": sum(one.lost for one in column),
            "rate_ratio": command.ratios(rate[first], rate[name]),
            "cpu_ratio": command.ratios(cost[first], cost[name]),
        }
        for name, column in columns.items()
    }


def show(figures: command.Figures, console: Console) -> None:
    first = next(iter(figures["servers"]))
    heads = ("server", "queries/s", "CPU us/query", "busy %", "lost", f"{first} / it: rate", f"{first} / it: CPU")
    rows = [(name, *found.values()) for name, found in figures["servers"].items()]
    console.print(command.table(f"{figures['names']}, median of {len(figures['rounds'])} rounds", heads, rows))
    console.print(command.noted(figures))


def main() -> int:
    made = command.parser("peers", __doc__, TAKES, "--rounds 9 --coredns ./coredns --json peers.json")
    command.bound(made, "--rounds", int, 1, 50, 5, "rounds over all servers")
    command.bound(made, "--seconds", float, 0.5, 60, 5, "seconds of each run")
    made.add_argument("--names", choices=NAMES, default="both", help="what is asked (default: both)")
    made.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS), help="default: all but CoreDNS")
    made.add_argument("--coredns", type=Path, metavar="PATH", help="a CoreDNS binary to compare with too")
    made.add_argument("--cookies", action="store_true", help="each query with a cookie that its server has given")
    made.add_argument("--compare-planes", action="store_true", help="pure Python against the native part of lbdns")
    command.bound(made, "--peer-ttl", int, 0, 86400, 0, "TTL of the peers' alias; above 0 PowerDNS's cache can hold it")
    return command.run(made, measure, show)


if __name__ == "__main__":
    sys.exit(main())
