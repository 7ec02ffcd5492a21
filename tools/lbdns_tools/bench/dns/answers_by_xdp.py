"""Compares the answers per second and the CPU time per answer of lbdns by XDP and by sockets, and of other DNS servers.

A load generator in one network namespace sends queries by AF_XDP to a server in another one, over a veth pair. Each
round starts one server at a time. All servers receive the same queries with EDNS for best.hobbit and
round.robin.hobbit. For both names, lbdns balances load across three members that report every second. The other servers
serve a fixed alias with TTL 0 instead. CPU time is that of the server's processes and of the kernel's thread that
handles arriving packets, so it includes the network stack and XDP programs, in contrast to the benchmark dns.peers.

The server 'lbdns-xdp' uses the kernel's generic mode, as lbdns does on all veth devices. The server 'lbdns-xdp-driver'
uses the driver's mode, as on a network card. The benchmark requires root privileges, kxdpgun, and two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import BEST, MEMBERS, ROUND_ROBIN, BenchmarkFarm, send_reports, zone_text
from lbdns_tools.bench.dns.compared_servers import PEERS, MeasuredServer, PeerSetup
from lbdns_tools.bench.dns.kxdpgun import KxdpgunResult, KxdpgunRun, run_kxdpgun
from lbdns_tools.bench.dns.latency_prober import await_answer, query_wire
from lbdns_tools.bench.dns.veth_pair import VethEnd, veth_pair
from lbdns_tools.bench.measured_processes import BenchmarkError, need, running
from lbdns_tools.free_ports import free_port
from lbdns_tools.lab.machines.network_namespaces import inside

TAKES: Final = "about 4 minutes (--rounds x servers x (--rates x --seconds + 3 s))"
EXAMPLE: Final = "--rounds 7 --servers lbdns lbdns-xdp nsd --json xdp.json"
TARGET_TEXT: Final = "at each rate, lbdns uses less CPU time per answer by XDP than by sockets"
START: Final = 30.0  # seconds a server may take to start
WARM_UP: Final = 0.5  # seconds of load before each measured run
WARM_UP_RATE: Final = 5_000  # queries/s
#: Uses the driver's mode on veth devices too: kxdpgun's program makes its end receive what the server's driver sends
_IN_DRIVER: Final = (
    "import runpy\nfrom lbdns.server.xdp import program_link\nprogram_link.loses_answers = lambda name: False\n"
    "runpy.run_module('lbdns', run_name='__main__', alter_sys=True)"
)


@contextlib.contextmanager
def _serving_lbdns(python: list[str], xdp: bool, folder: Path, end: VethEnd, core: int) -> Iterator[MeasuredServer]:
    """Run lbdns with reporting members. ``python`` contains the arguments of Python that start the package."""
    farm = BenchmarkFarm(folder, pool="coherence = 0\n")
    if xdp:
        text = farm.config.read_text()
        farm.config.write_text(text.replace("[server]\n", f'[server]\nxdp = ["{end.device}"]\n', 1))
    ended = threading.Event()
    send = partial(send_reports, farm.report_port, farm.key, list(MEMBERS), ended)
    reporter = threading.Thread(target=inside, args=(end.namespace, send), daemon=True)
    arguments = [sys.executable, *python, *farm.command()[3:]]
    with running("lbdns", end.within(*arguments), core, folder / "log") as process:
        reporter.start()
        try:
            process.await_log(r"ready: ", START, "that it is ready")
            if xdp:
                process.await_log(r"xdp: the kernel answers", 1.0, "that the kernel answers")
            yield MeasuredServer(process, farm.port)
        finally:
            ended.set()
            reporter.join()


@contextlib.contextmanager
def _serving_peer(setup: PeerSetup, folder: Path, end: VethEnd, core: int) -> Iterator[MeasuredServer]:
    port, zone = free_port(), folder / "hobbit.zone"
    zone.write_text(zone_text(fixed=True))
    with running("server", end.within(*setup(folder, port, zone)), core, folder / "log") as process:
        yield MeasuredServer(process, port)


def _knot_xdp(device: str, folder: Path, port: int, zone: Path) -> list[str]:
    """Configure Knot to answer by AF_XDP, besides its sockets."""
    found = PEERS["knot"](folder, port, zone)
    with (folder / "knot.conf").open("a") as config:
        config.write(f"xdp:\n  listen: {device}@{port}\n")
    return found


@contextlib.contextmanager
def _serving_knot_by_xdp(folder: Path, end: VethEnd, core: int) -> Iterator[MeasuredServer]:
    try:
        with _serving_peer(partial(_knot_xdp, end.device), folder, end, core) as server:
            yield server
    finally:
        end.detach_programs()  # Knot leaves its program on the device


Serve = Callable[[Path, VethEnd, int], contextlib.AbstractContextManager[MeasuredServer]]
SERVERS: Final[Mapping[str, Serve]] = {
    "lbdns": partial(_serving_lbdns, ["-m", "lbdns"], False),
    "lbdns-xdp": partial(_serving_lbdns, ["-m", "lbdns"], True),
    "lbdns-xdp-driver": partial(_serving_lbdns, ["-c", _IN_DRIVER], True),
    "nsd": partial(_serving_peer, PEERS["nsd"]),
    "knot": partial(_serving_peer, PEERS["knot"]),
    "knot-xdp": _serving_knot_by_xdp,
    "gdnsd": partial(_serving_peer, PEERS["gdnsd"]),
}


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    need("kxdpgun", "knot-dnsutils")
    names = options.servers
    queries = folder / "queries"
    queries.write_text("".join(f"{name} {qtype} E\n" for name, qtype in (BEST, ROUND_ROBIN)))
    rounds: list[dict[str, dict[str, float]]] = []
    with veth_pair(options.server_core, options.load_core) as (end, client):
        for number in command.rounds(options.rounds):
            rounds.append({})
            for name in names[:: -1 if number % 2 else 1]:
                place = folder / f"{number}-{name}"
                place.mkdir()
                with SERVERS[name](place, end, options.server_core) as server:
                    inside(end.namespace, partial(await_answer, server.port, query_wire(*BEST), START))
                    run = KxdpgunRun(client, server.port, queries, options.load_core, WARM_UP_RATE, WARM_UP)
                    run_kxdpgun(run)
                    for rate in options.rates:
                        measured = measure_rate(server, end, replace(run, rate=rate, seconds=options.seconds))
                        rounds[-1][f"{name}, {rate}/s"] = measured
    servers = {name: command.medians([samples[name] for samples in rounds]) for name in rounds[0]}
    results = {"servers": servers, "rounds": rounds}
    return results | ({"met": target_met(servers, options.rates)} if {"lbdns", "lbdns-xdp"} <= {*names} else {})


def measure_rate(server: MeasuredServer, end: VethEnd, run: KxdpgunRun) -> dict[str, float]:
    """Put a server under load, and return its figures. Raises BenchmarkError if an answer is an error."""
    own, kernel = server.process.cpu_seconds(), end.kernel_seconds()
    found = run_kxdpgun(run)
    own, kernel = server.process.cpu_seconds() - own, end.kernel_seconds() - kernel
    return figures(server.process.name, found, run.seconds, own, kernel)


def figures(name: str, found: KxdpgunResult, seconds: float, own: float, kernel: float) -> dict[str, float]:
    """Return the figures of a run, from the CPU time of the server's processes (``own``) and of the kernel's thread.

    Raises BenchmarkError if there is no answer, or an answer that is an error.
    """
    if not found.answered or found.correct < found.answered:
        raise BenchmarkError(
            f"{name} must answer with NOERROR, but {found.answered - found.correct} of {found.answered} answers to "
            f"{found.sent} queries were errors"
        )
    return {
        "answers_per_s": found.answered / seconds,
        "answered_percent": 100 * found.answered / found.sent,
        "process_us": 1e6 * own / found.answered,
        "kernel_us": 1e6 * kernel / found.answered,
        "cpu_us": 1e6 * (own + kernel) / found.answered,
    }


def target_met(servers: Mapping[str, Mapping[str, float]], rates: Sequence[int]) -> bool:
    return all(servers[f"lbdns-xdp, {rate}/s"]["cpu_us"] < servers[f"lbdns, {rate}/s"]["cpu_us"] for rate in rates)


def tables(results: command.Results) -> command.Tables:
    heads = ("server, offered load", "answers/s", "answered %", "CPU us/answer: process", "kernel", "total")
    rows = [
        (name, round(found["answers_per_s"]), *(f"{value:.2f}" for value in [*found.values()][1:]))
        for name, found in results["servers"].items()
    ]
    return [command.table(f"median of {len(results['rounds'])} rounds", heads, rows)]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--rounds", int, 1, 50, 5, "number of rounds; each round measures every server")
    command.add_number(parser, "--seconds", float, 0.5, 60, 2, "seconds per run")
    command.add_numbers(parser, "--rates", 100, 10_000_000, (20_000, 1_000_000), "offered load in queries/s")
    parser.add_argument(
        "--servers", nargs="+", choices=list(SERVERS), default=list(SERVERS), metavar="NAME",
        help=f"servers to measure: {', '.join(SERVERS)} (default: all)",
    )  # fmt: skip
    command.add_core_options(parser)
