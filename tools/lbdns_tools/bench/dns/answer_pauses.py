"""Measures the latency of DNS answers while lbdns does everything else that it may have to do at the same time.

In each round, dnsperf sends queries at half of each server's maximum rate, and a prober measures the time from sending
a query until the kernel receives the answer. Meanwhile, lbdns plans a large pool whose members send one report per
second each, reloads its configuration again and again, and cannot write its log, because the pipe is full. NSD has
nothing else to do. lbdns starts anew in each round.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.answer_latency import latency_at_share, summary
from lbdns_tools.bench.dns.benchmark_farm import (
    BEST,
    ROUND_ROBIN,
    UNREACHED_LIMIT,
    address_records,
    configuration,
    pool_table,
    rate_limit,
    write_key,
    zone_text,
)  # fmt: skip
from lbdns_tools.bench.dns.compared_servers import START, MeasuredServer, serving_peer
from lbdns_tools.bench.dns.dnsperf import write_queries
from lbdns_tools.bench.dns.latency_prober import MAX_RATE, await_answer, query_wire
from lbdns_tools.bench.measured_processes import BenchmarkError, MeasuredProcess, need, stop, take_priority
from lbdns_tools.bench.report_transports import ReportTarget
from lbdns_tools.bench.simulated_agents import SimulatedAgents, agent_name
from lbdns_tools.free_ports import free_ports

TAKES: Final = "about 70 s (--rounds x 2 x (5 s + --seconds))"
EXAMPLE: Final = "--members 1000 --reload-every 0.5"
WORST: Final = 10.0  # ms
TARGET_TEXT: Final = f"p99 at most that of NSD, longest latency at most {WORST:g} ms, and no query lost"
_READY: Final = b"ready: "
_FULL_PIPE: Final = b"\n" * 65536


def write_farm(folder: Path, members: int, plane: str) -> tuple[Path, int, int]:
    """Write the files of a server whose pool has ``members`` members. Return the configuration's path, and the ports
    for queries and for reports."""
    port, report_port = free_ports(2)
    names = [agent_name(number) for number in range(members)]
    (folder / "hobbit.zone").write_text(zone_text(fixed=False) + address_records(names))
    text = configuration(f"0.0.0.0:{port}", report_port, "hobbit", plane)
    config = folder / "lbdns.toml"
    config.write_text(text + pool_table("web", "hobbit", names) + rate_limit(UNREACHED_LIMIT))
    return config, port, report_port


class StalledLog:
    """A pipe for a program's log. It is read until the program is ready, and then full."""

    def __init__(self) -> None:
        self._read, self.write = os.pipe()

    def await_ready(self) -> str:
        """Return what the program has logged, up to the line that says that it is ready, and fill the pipe. Raises
        BenchmarkError if the program ends before."""
        os.close(self.write)
        text = b""
        with os.fdopen(self._read, "rb", buffering=0) as pipe:
            while _READY not in text or not text.endswith(b"\n"):
                piece = pipe.read(4096)
                if not piece:
                    raise BenchmarkError(f"lbdns ended before it was ready:\n{text.decode(errors='replace')}")
                text += piece
            self._read = os.dup(pipe.fileno())
        self._fill()
        return text.decode(errors="replace")

    def _fill(self) -> None:
        # A descriptor of its own, because the program's end must stay blocking
        full = os.open(f"/proc/self/fd/{self._read}", os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(full, _FULL_PIPE)
        os.close(full)

    def close(self) -> None:
        os.close(self._read)


@contextlib.contextmanager
def serving_with_stalled_log(config: Path, port: int, core: int) -> Iterator[MeasuredServer]:
    """Run lbdns for the duration of a with statement. Once it is ready, nothing reads its log."""
    log = StalledLog()
    program = [sys.executable, "-m", "lbdns", "serve", "-c", str(config), "--log-level", "debug"]
    process = subprocess.Popen(
        [need("taskset", "util-linux"), "-c", str(core), *program], stdin=subprocess.DEVNULL, stdout=log.write,
        stderr=log.write, start_new_session=True,
    )  # fmt: skip
    try:
        path = config.with_name("log")
        path.write_text(log.await_ready())
        ready = next(line for line in path.read_text().splitlines() if _READY.decode() in line)
        await_answer(port, query_wire(*BEST), START)
        yield MeasuredServer(MeasuredProcess("lbdns", process, path), port, ready.partition(_READY.decode())[2])
    finally:
        stop(process)
        log.close()


@contextlib.contextmanager
def reloading(process: int, interval: float) -> Iterator[None]:
    """Make a server reload every ``interval`` seconds for the duration of a with statement."""
    ended = threading.Event()

    def reload() -> None:
        while not ended.wait(interval):
            os.kill(process, signal.SIGHUP)

    thread = threading.Thread(target=reload)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def measure_lbdns(folder: Path, queries: Path, options: argparse.Namespace) -> tuple[str, dict[str, float]]:
    """Measure lbdns in one round, and return a note and the figures. ``folder`` is created."""
    folder.mkdir()
    key = write_key(folder)
    config, port, report_port = write_farm(folder, options.members, options.plane)
    agents = SimulatedAgents(key, options.members, 1.0, ReportTarget((report_port,)))
    with (
        serving_with_stalled_log(config, port, options.server_core) as server,
        agents,
        reloading(server.process.process.pid, options.reload_every),
    ):
        found = latency_at_share(server, queries, options)
        if server.process.ended or not agents.sent:
            raise BenchmarkError("lbdns or its agents ended during the measurement")
    return server.note, found


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    take_priority()
    queries = write_queries(folder / "queries", (BEST, ROUND_ROBIN))
    rounds: dict[str, list[dict[str, float]]] = {"lbdns": [], "nsd": []}
    note = ""
    with serving_peer("nsd", folder / "nsd", options.server_core) as nsd:
        for number in command.rounds(options.rounds):
            note, found = measure_lbdns(folder / f"lbdns-{number}", queries, options)
            rounds["lbdns"].append(found)
            rounds["nsd"].append(latency_at_share(nsd, queries, options))
    servers = summary(rounds)
    for name, column in rounds.items():
        servers[name]["kernel_worst_ms"] = max(one["kernel_worst_ms"] for one in column)
        servers[name]["lost"] = sum(one["lost"] for one in column)
    return {"note": note, "servers": servers, "rounds": rounds, "met": is_met(servers)}


def is_met(servers: dict[str, command.Results]) -> bool:
    lbdns, nsd = servers["lbdns"], servers["nsd"]
    return bool(
        nsd["lbdns_to_it_kernel_p99"] <= 1 and lbdns["kernel_worst_ms"] <= WORST and lbdns["lost"] <= nsd["lost"]
    )


def tables(results: command.Results) -> command.Tables:
    title = "latency while lbdns does everything else (median of all rounds; worst and lost: of all rounds together)"
    return [command.side_by_side(title, results["servers"])]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--members", int, 1, 10_000, 1000, "members of the pool")
    command.add_number(parser, "--reload-every", float, 0.1, 60, 1, "seconds between two reloads")
    command.add_number(parser, "--rounds", int, 1, 50, 5, "number of rounds; each round measures both servers")
    command.add_number(parser, "--seconds", float, 1, 60, 3, "duration of the load in each round, in seconds")
    command.add_number(parser, "--share", float, 0.05, 0.95, 0.5, "load, as a share of the maximum query rate")
    command.add_number(parser, "--rate", float, 1, MAX_RATE, 1000, "queries/s of the prober")
    command.add_dns_options(parser)
