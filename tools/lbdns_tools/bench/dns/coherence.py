"""What it costs that A and AAAA of one client get the same member: CPU time a query with it, to that without it.

Of each plane two servers, one with 'coherence' as it is by default and one with 0, are asked in turn, round after
round; ratios are made within a round, and their median is told. Asked are A alone, where each look-up is noted and
none joined; A and AAAA in pairs, where every second one is; and round.robin, which has nothing to do with it. dnsperf
asks from one address; in the rows 'of N addresses' a generator of our own does, each client once in turn, so that what
is remembered of it has left the processor's cache. Under that one a native server is not saturated.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from lbdns_tools.bench.dns import command
from lbdns_tools.bench.dns.addresses import MOST, ask_from
from lbdns_tools.bench.dns.dnsperf import Load, Run, load, write_queries
from lbdns_tools.bench.dns.farm import BEST, ROUND_ROBIN, Farm
from lbdns_tools.bench.dns.prober import query_wire
from lbdns_tools.bench.dns.servers import Served, serving_lbdns

TAKES: Final = "about 7 minutes (rounds x planes x 2 x 5 x (seconds + warm-up))"
WARM_UP: Final = 0.3  # seconds of load before each measured run
SWITCHED: Final[Mapping[str, str]] = {"on": "", "off": "coherence = 0\n"}
_PAIR: Final = (BEST, (BEST[0], "AAAA"))
Question = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Asking:
    """One way of asking: what, and from how many addresses; 0 is dnsperf's one."""

    name: str
    questions: tuple[Question, ...]
    addresses: int = 0

    def load(self, port: int, folder: Path, core: int, seconds: float) -> Load:
        if self.addresses:
            return ask_from(port, [query_wire(*question) for question in self.questions], self.addresses, seconds)
        return load(Run(port, write_queries(folder / "queries", self.questions), core, seconds=seconds))


def askings(addresses: int) -> list[Asking]:
    far = f"of {addresses:,} addresses"
    return [
        Asking("A", (BEST,)),
        Asking("A and AAAA", _PAIR),
        Asking("round.robin", (ROUND_ROBIN,)),
        Asking(f"A {far}", (BEST,), addresses),
        Asking(f"A and AAAA {far}", _PAIR, addresses),
    ]


def cost(served: Served, asking: Asking, folder: Path, options: argparse.Namespace) -> float:
    """CPU time of an answered query, in microseconds."""
    asking.load(served.port, folder, options.load_core, WARM_UP)
    before = served.running.cpu_seconds()
    found = asking.load(served.port, folder, options.load_core, options.seconds)
    return 1e6 * (served.running.cpu_seconds() - before) / found.answered


def measure(options: argparse.Namespace, folder: Path) -> command.Figures:
    planes = ("python", "native") if options.plane == "auto" else (options.plane,)
    ways = askings(options.addresses)
    costs: dict[str, dict[str, dict[str, list[float]]]] = {}
    with contextlib.ExitStack() as stack:
        servers: dict[tuple[str, str], Served] = {}
        for plane in planes:
            for switched, line in SWITCHED.items():
                place = folder / f"{plane}-{switched}"
                place.mkdir()
                farm = Farm(place, plane=plane, pool=line)
                served = stack.enter_context(serving_lbdns(farm, options.server_core, f"lbdns {place.name}"))
                servers[plane, switched] = served
        for number in range(options.rounds):
            command.progress(f"round {number + 1} of {options.rounds}")
            for way in ways:
                # Who is asked first has the colder processor: each is, every other round
                for (plane, switched), served in list(servers.items())[:: -1 if number % 2 else 1]:
                    column = costs.setdefault(plane, {}).setdefault(way.name, {}).setdefault(switched, [])
                    column.append(cost(served, way, folder, options))
    return {"planes": {plane: summary(found) for plane, found in costs.items()}, "rounds": costs}


def summary(costs: Mapping[str, Mapping[str, list[float]]]) -> dict[str, command.Figures]:
    """By way of asking, the medians and that of the ratios within a round."""
    return {
        name: {
            "on_us": round(statistics.median(found["on"]), 2),
            "off_us": round(statistics.median(found["off"]), 2),
            "ratio": command.ratios(found["on"], found["off"]),
        }
        for name, found in costs.items()
    }


def show(figures: command.Figures, console: Console) -> None:
    heads = ("asked", "on: us/query", "off: us/query", "on / off")
    for plane, found in figures["planes"].items():
        rows = [(name, *one.values()) for name, one in found.items()]
        console.print(command.table(f"CPU a query, {plane} plane, median of rounds", heads, rows))
    console.print(command.noted(figures))


def main() -> int:
    made = command.parser("coherence", __doc__, TAKES, "--rounds 9")
    command.bound(made, "--rounds", int, 1, 50, 7, "rounds over all servers")
    command.bound(made, "--seconds", float, 0.5, 60, 2, "seconds of each run")
    command.bound(made, "--addresses", int, 1, MOST, 32_768, "clients in the rows that have many")
    return command.run(made, measure, show)


if __name__ == "__main__":
    sys.exit(main())
