"""A flood of malformed UDP beside good queries: are they still answered, does memory stay, does the log stay silent?

One process sends malformed datagrams of many kinds as fast as it can; this one asks good queries at a modest pace and
takes the kernel's time of each answer. Before that, the same pace without the flood. Flood and good queries share the
server's receive buffer, so a server that can't keep up loses some of both; NSD under the same flood shows what is to be
had. Needs root to keep the generator from delaying the prober's sends; without, latencies are less sharp.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from lbdns_tools.bench.dns import command
from lbdns_tools.bench.dns.farm import BEST, Farm
from lbdns_tools.bench.dns.junk import flooding
from lbdns_tools.bench.dns.prober import MAX_RATE, Probes, probe, query_wire
from lbdns_tools.bench.dns.processes import come_first
from lbdns_tools.bench.dns.servers import Served, serving_lbdns, serving_peer

TAKES: Final = "about 3 minutes (2 servers x (seconds + 15 s))"
CALM: Final = 10.0  # seconds of good queries alone, before
WARM_UP: Final = 2.0  # seconds of flood before the memory at its begin is read
PATIENCE: Final = 20.0  # seconds the generator may take longer


def flood(served: Served, options: argparse.Namespace) -> command.Figures:
    """What one server makes of it."""
    query, server = query_wire(*BEST), served.running
    calm = probe(served.port, query, options.rate, CALM)
    with flooding(served.port, options.load_core, options.seed, WARM_UP) as warming:
        warming.communicate(timeout=WARM_UP + PATIENCE)
    before, lines, cpu = server.rss(), server.log_lines(), server.cpu_seconds()
    with flooding(served.port, options.load_core, options.seed, options.seconds) as generator:
        beside = probe(served.port, query, options.rate, options.seconds)
        sent, _ = generator.communicate(timeout=PATIENCE)
    return {
        **told("calm_", calm),
        **told("", beside),
        "malformed_per_s": round(int(sent) / options.seconds),
        "cpu_percent": round(100 * (server.cpu_seconds() - cpu) / options.seconds),
        "rss_before_mb": round(before / 1e6, 2),
        "rss_after_mb": round(server.rss() / 1e6, 2),
        "log_lines": server.log_lines() - lines,
    }


def told(prefix: str, probes: Probes) -> command.Figures:
    figures = {"p50_ms": probes.p(50), "p99_ms": probes.p(99), "asked": probes.sent, "lost": probes.lost}
    return {prefix + name: value for name, value in figures.items()}


def measure(options: argparse.Namespace, folder: Path) -> command.Figures:
    prompt = come_first()
    place = folder / "lbdns"
    place.mkdir()
    farm = Farm(place, plane=options.plane)
    with serving_lbdns(farm, options.server_core) as served:
        servers = {"lbdns": flood(served, options)}
        note = served.note
    if not options.alone:
        with serving_peer("nsd", folder / "nsd", options.server_core) as served:
            servers["nsd"] = flood(served, options)
    return {"note": note + ("" if prompt else "; not root: times are less sharp"), "servers": servers}


def show(figures: command.Figures, console: Console) -> None:
    heads = list(next(iter(figures["servers"].values())))
    rows = [(head.replace("_", " "), *(found[head] for found in figures["servers"].values())) for head in heads]
    console.print(command.table("good queries beside malformed ones", ("", *figures["servers"]), rows))
    console.print(command.noted(figures))


def main() -> int:
    made = command.parser("flood", __doc__, TAKES, "--seconds 60 --rate 200")
    command.bound(made, "--seconds", float, 1, 3600, 60, "seconds of flood")
    command.bound(made, "--rate", float, 1, MAX_RATE, 200, "good queries/s")
    command.bound(made, "--seed", int, 0, 2**31, 1, "of the malformed datagrams")
    made.add_argument("--alone", action="store_true", help="without NSD")
    return command.run(made, measure, show)


if __name__ == "__main__":
    sys.exit(main())
