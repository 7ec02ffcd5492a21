"""Measures the latency of DNS answers while HTTP clients (readers) request web pages without pausing.

In each round, dnsperf queries lbdns twice at a fixed rate. In one run, the readers request pages from lbdns; in the
other, from a dummy HTTP server. The dummy server reproduces the responses/s and bytes/s of lbdns, so the readers cause
the same load in both runs. A prober that runs alongside dnsperf measures the figure 'kernel': the time from sending a
query until the kernel receives the answer. The figure 'dnsperf' is the latency that dnsperf itself measures. The main
result compares the p99 of 'kernel' in the two runs: the value with lbdns divided by the value with the dummy server.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import psutil

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import BEST, ROUND_ROBIN, BenchmarkFarm, address_records, pool_table
from lbdns_tools.bench.dns.compared_servers import MeasuredServer, serving_lbdns
from lbdns_tools.bench.dns.dnsperf import MARGIN, DnsperfRun, dnsperf_beside, latencies, parse_statistics, write_queries
from lbdns_tools.bench.dns.latency_prober import MAX_RATE, latency_figures, probe, query_wire
from lbdns_tools.bench.measured_processes import BenchmarkError, MeasuredProcess, running, take_priority
from lbdns_tools.bench.page_readers import KEEPERS
from lbdns_tools.free_ports import free_port

TAKES: Final = "about 5 minutes (farms x (--rounds x 2 runs x (2 s + --seconds) + 20 s))"
EXAMPLE: Final = "--rounds 9 --farms 5x200"
FIND: Final = 2.0  # seconds of load to find the maximum rate
SETTLE: Final = 1.0  # seconds of readers and load before the prober begins
NICE: Final = -15
THREADS: Final = 0.1  # seconds until dnsperf has started its threads
START: Final = 120.0  # seconds within which all readers must have a page
TARGET: Final = 1.10  # times the p99 with the dummy server
TARGET_TEXT: Final = f"p99 of the figure 'kernel' with lbdns at most {TARGET:g} times that with the dummy server"


def page_farm(folder: Path, plane: str, pools: int, members: int) -> tuple[BenchmarkFarm, int, list[str]]:
    """Return three values: a farm that serves web pages, its HTTP port, and the names of its extra members."""
    farm, port = BenchmarkFarm(folder, plane=plane), free_port()
    names = [[f"p{pool}m{member}" for member in range(members)] for pool in range(pools)]
    flat = [name for pool in names for name in pool]
    zone = folder / "hobbit.zone"
    zone.write_text(zone.read_text() + address_records(flat))
    more = "".join(
        pool_table(f"p{number}", "hobbit", pool, f'"best.p{number}" = "best"') for number, pool in enumerate(names)
    )
    config = farm.config.read_text().replace('[web]\nlisten = "off"', f'[web]\nlisten = "127.0.0.1:{port}"')
    farm.config.write_text(f"{config}[history]\non = false\n{more}")
    return farm, port, flat


@contextlib.contextmanager
def page_readers_part(part: str, folder: Path, core: int, **options: object) -> Iterator[Path]:
    """Run one helper process (``part``) for the duration of a with statement, and yield the path of its log."""
    arguments = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    log = folder / f"{part}.log"
    program = [sys.executable, "-m", "lbdns_tools.bench.page_readers", part]
    with running(part, [*program, *arguments], core, log) as process:
        yield log
        process.require_alive()


def raise_priority(thread: int) -> None:
    """Give a thread nearly all of its core's CPU time whenever it has work to do. This has no effect without root
    privileges."""
    # A real-time priority would delay the kernel's own threads, and therefore datagrams, whenever TCP keeps them busy
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, NICE)


@contextlib.contextmanager
def prompt_dnsperf(run: DnsperfRun) -> Iterator[MeasuredProcess]:
    """Run dnsperf with priority on its core, because dnsperf sends a burst of queries after each delay."""
    with dnsperf_beside(run) as load:
        time.sleep(THREADS)
        for thread in psutil.Process(load.process.pid).threads():
            raise_priority(thread.id)
        yield load


def reader_counts(log: Path) -> dict[str, float]:
    """Return the latest counters that ``page_readers`` printed, or {}. Their ``time`` is in monotonic seconds."""
    lines = log.read_text().split("\n")[:-1]
    found: dict[str, float] = json.loads(lines[-1]) if lines else {}
    return found


def await_readers(log: Path) -> None:
    """Wait until the readers have received pages and events. Raises BenchmarkError."""
    deadline = time.monotonic() + START
    while not ((counts := reader_counts(log)) and counts["answers"] >= KEEPERS and counts["event_bytes"]):
        if time.monotonic() > deadline:
            raise BenchmarkError(f"the readers did not receive both pages and events within {START:g} s: {counts}")
        time.sleep(0.05)


def per_second(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    seconds = after["time"] - before["time"]
    return {f"{name}_per_s": round((after[name] - before[name]) / seconds, 1) for name in after if name != "time"}


class PageReaderRounds:
    """A measurement of one farm's DNS latency over several rounds."""

    def __init__(self, server: MeasuredServer, web_port: int, folder: Path, options: argparse.Namespace) -> None:
        self._server, self._web_port, self._folder, self._options = server, web_port, folder, options
        self._queries = write_queries(folder / "queries", (BEST, ROUND_ROBIN))
        run = DnsperfRun(server.port, self._queries, options.load_core, seconds=FIND)
        with prompt_dnsperf(run) as load:
            self.most = parse_statistics(load.output(FIND + MARGIN)).rate

    def run(self) -> dict[str, list[dict[str, float]]]:
        found: dict[str, list[dict[str, float]]] = {"dummy": [], "lbdns": []}
        ours = self._with_readers(self._web_port)  # what lbdns sends its readers
        for number in range(self._options.rounds):
            command.progress(
                f"round {number + 1} of {self._options.rounds}: readers receive {ours['answers_per_s']:.1f} pages/s"
            )
            for name in ("dummy", "lbdns") if number % 2 else ("lbdns", "dummy"):
                if name == "lbdns":
                    ours = self._with_readers(self._web_port)
                found[name].append(ours if name == "lbdns" else self._beside_dummy(ours))
        return found

    def _beside_dummy(self, ours: Mapping[str, float]) -> dict[str, float]:
        port = free_port()
        rate, stream_rate, core = ours["answers_per_s"], ours["event_bytes_per_s"], self._options.load_core
        size = int(ours["answer_bytes_per_s"] / rate) if rate else 1
        with page_readers_part("dummy", self._folder, core, port=port, rate=rate, size=size, stream_rate=stream_rate):
            return self._with_readers(port)

    def _with_readers(self, port: int) -> dict[str, float]:
        """Measure DNS latency while readers request pages from ``port``, and return the figures."""
        options = self._options
        seconds = options.seconds + 2 * SETTLE
        run = DnsperfRun(self._server.port, self._queries, options.load_core, seconds=seconds,
                         rate=self.most * options.share, options=("-e", "-v"))  # fmt: skip
        with page_readers_part("readers", self._folder, options.load_core, port=port) as log:
            await_readers(log)
            with prompt_dnsperf(run) as load:
                probe(self._server.port, query_wire(*BEST), options.rate, SETTLE)
                before, cpu = reader_counts(log), self._server.process.cpu_seconds()
                probes = probe(self._server.port, query_wire(*BEST), options.rate, options.seconds)
                after, cpu = reader_counts(log), self._server.process.cpu_seconds() - cpu
                own = latencies(load.output(seconds + MARGIN))
        figures = {**latency_figures(probes, own), "lost": probes.lost}
        figures["server_cpu_percent"] = round(100 * cpu / options.seconds, 2)
        return figures | per_second(before, after)


def measure_farm(folder: Path, options: argparse.Namespace, pools: int, members: int) -> command.Results:
    folder.mkdir()
    farm, web_port, names = page_farm(folder, options.plane, pools, members)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serving_lbdns(farm, options.server_core))
        raise_priority(server.process.process.pid)  # so that other programs on its core do not delay it
        if names:
            hosts = folder / "hosts"
            hosts.write_text("\n".join(names))
            port, key_file = farm.report_port, folder / "report.key"
            agents = page_readers_part("agents", folder, options.load_core, port=port, key_file=key_file, hosts=hosts)
            stack.enter_context(agents)
        time.sleep(2 * SETTLE)  # all members have reported
        measured = PageReaderRounds(server, web_port, folder, options)
        found = measured.run()
        return {"note": server.note, "max_per_s": round(measured.most), **summary(found), "rounds": found}


def summary(rounds: Mapping[str, list[dict[str, float]]]) -> command.Results:
    """Return the medians across the rounds, and the median ratios (lbdns to the dummy server)."""
    result: command.Results = {name: command.medians(column) for name, column in rounds.items()}
    for key in ("kernel_p99", "dnsperf_p99"):
        ours, theirs = ([one[f"{key}_ms"] for one in rounds[name]] for name in ("lbdns", "dummy"))
        result[f"{key}_ratio"] = command.median_ratio(ours, theirs)
        result[f"{key}_ratios"] = [round(a / b, 3) for a, b in zip(ours, theirs, strict=True) if b]
    return result


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    take_priority()
    found: command.Results = {}
    for pools, members in options.farms:
        name = f"{pools} x {members} members" if pools else "3 members"
        command.progress(name)
        found[name] = measure_farm(folder / f"farm{len(found)}", options, pools, members)
    met = all(farm["kernel_p99_ratio"] <= TARGET for farm in found.values())
    return {"note": next(iter(found.values()))["note"], "farms": found, "met": met}


def tables(results: command.Results) -> command.Tables:
    for name, farm in results["farms"].items():
        heads = list(farm["lbdns"])
        rows = [(head.replace("_", " "), *(farm[server][head] for server in ("dummy", "lbdns"))) for head in heads]
        rows += [
            (f"{key} lbdns / dummy", "", f"{farm[f'{key}_ratio']} of {farm[f'{key}_ratios']}")
            for key in ("kernel_p99", "dnsperf_p99")
        ]
        title = f"{name}, maximum {farm['max_per_s']} queries/s; readers request pages from ..."
        yield command.table(title, ("median of rounds", "dummy", "lbdns"), rows)


def _farm(text: str) -> tuple[int, int]:
    pools, _, members = text.partition("x")
    if not (pools.isdigit() and members.isdigit() and int(pools) * int(members) <= 10_000):
        raise argparse.ArgumentTypeError(f"must be POOLSxMEMBERS, for example 5x200 or 0x0, not {text!r}")
    return int(pools), int(members)


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--rounds", int, 1, 50, 7, "number of rounds")
    command.add_number(parser, "--seconds", float, 1, 60, 5, "seconds per run; each round consists of two runs")
    command.add_number(parser, "--share", float, 0.05, 0.95, 0.5, "load, as a share of the maximum query rate")
    command.add_number(parser, "--rate", float, 1, MAX_RATE, 1000, "queries/s of the prober")
    parser.add_argument(
        "--farms", nargs="+", type=_farm, default=[(0, 0), (5, 200)], metavar="POOLSxMEMBERS",
        help="for each farm, the number of extra pools and of members in each (default: 0x0 5x200)",
    )  # fmt: skip
    command.add_dns_options(parser)
