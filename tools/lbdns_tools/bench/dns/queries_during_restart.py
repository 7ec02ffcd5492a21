"""Counts queries lost while the server reloads, is replaced by a new process, or loses workers. The target is zero lost
queries.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from operator import methodcaller
from pathlib import Path
from typing import Final

from lbdns.client.control_client import send_command
from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import ZONE_HEAD, address_records, pool_table
from lbdns_tools.bench.dns.latency_prober import await_answer
from lbdns_tools.bench.dns.windowed_load import QUERY, QueryTally, WindowedLoad
from lbdns_tools.faults.server_processes import children
from lbdns_tools.free_ports import free_port

TAKES: Final = "about 10 s"
EXAMPLE: Final = "--queries 500000 --workers 2 --take-over"
START: Final = 120.0  # seconds that a server may take to start or to end
TARGET_TEXT: Final = "no query lost"


class ServerUnderLoad:
    """A running ``lbdns serve`` process and its later replacements. The caller must call ``close``."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.port = free_port()
        self.control = folder / "control.sock"
        self._config = folder / "lbdns.toml"
        self._report_port = free_port()
        (folder / "bench.zone").write_text(ZONE_HEAD + address_records(("web1", "web2")))
        self.write(0)
        self._all = [self._start("--workers", str(workers))]

    def write(self, ttl: int) -> None:
        """Write the configuration with ``ttl`` as the pool's TTL."""
        self._config.write_text(
            f'[server]\nlisten = ["127.0.0.1:{self.port}"]\ncontrol = "control.sock"\nstate_dir = "state"\n'
            f'[collector]\nlisten = ["127.0.0.1:{self._report_port}"]\n[web]\nlisten = "off"\n'
            "[rate_limit]\nresponses_per_second = 0\n"
            '[[zone]]\nname = "bench"\nfile = "bench.zone"\n'
            + pool_table("web", "bench", ("web1", "web2"))
            + f"ttl = {ttl}\n"
        )

    def _start(self, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "lbdns", "serve", "-c", str(self._config), "--log-level", "error", *options]
        return subprocess.Popen(command)

    def reload(self, number: int) -> str:
        self.write(number)
        began = time.monotonic()
        send_command(self.control, "reload")
        return f"reload in {(time.monotonic() - began) * 1000:.0f} ms"

    def take_over(self, workers: int) -> str:
        began = time.monotonic()
        self._all.append(self._start("--take-over", "--workers", str(workers)))
        status = self._all[-2].wait(START)
        took = time.monotonic() - began
        if status != 0 or self._all[-1].poll() is not None:
            raise LbdnsError(f"the old server exited with status {status}, the new server with {self._all[-1].poll()}")
        return f"replaced by a server with {workers} workers in {took * 1000:.0f} ms"

    def kill_worker(self, number: int) -> str:
        """Send SIGKILL to one worker. Consecutive values of ``number`` select the workers in turn."""
        fork_server = children(self._all[-1].pid)
        workers = sorted(worker for pid in fork_server for worker in children(pid))
        os.kill(workers[number % len(workers)], signal.SIGKILL)
        return f"killed worker {workers[number % len(workers)]}"

    def close(self) -> None:
        for process in self._all:
            process.terminate()
            process.wait(START)


#: A method of ServerUnderLoad with its argument; the call returns a description of the disruption
Disruption = Callable[[ServerUnderLoad], str]


def measure_losses(
    folder: Path, queries: int, rate: float, workers: int, disruptions: Sequence[Disruption]
) -> QueryTally:
    """Send a server at least ``queries`` queries, and continue until all ``disruptions`` have occurred."""
    with closing(ServerUnderLoad(folder, workers)) as server, ThreadPoolExecutor(1) as doer:
        await_answer(server.port, QUERY, START)
        load = WindowedLoad(server.port, queries, rate)
        load.goes_on.set()

        def do_all() -> None:
            try:
                for number, disrupt in enumerate(disruptions, 1):
                    while load.tally.sent < queries * number / (len(disruptions) + 1):
                        time.sleep(0.002)
                    load.tally.disruptions.append(disrupt(server))
            finally:
                load.goes_on.clear()

        done = doer.submit(do_all)
        tally = load.run()
        done.result()
        return tally


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    disruptions = [methodcaller("reload", number) for number in range(1, options.reloads + 1)]
    disruptions += [methodcaller("kill_worker", number) for number in range(options.kills)]
    if options.take_over is not None:
        disruptions.append(methodcaller("take_over", options.take_over or options.workers))
    tally = measure_losses(folder, options.queries, options.rate, options.workers, disruptions)
    return {
        "sent": tally.sent, "answered": tally.answered, "lost": tally.lost, "unexpected": tally.unexpected,
        "longest_ms": round(tally.longest * 1000, 1), "queries_per_s": round(tally.sent / tally.seconds),
        "note": "; ".join(tally.disruptions), "met": tally.lost == 0,
    }  # fmt: skip


def tables(results: command.Results) -> command.Tables:
    return [command.figures("queries", results)]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--queries", int, 1, 10**9, 100_000, "minimum number of queries")
    command.add_number(
        parser, "--rate", float, 0, 10**6, 0, "queries/s; 0 means that each answer triggers the next query"
    )
    command.add_number(parser, "--workers", int, 1, 64, 2, "number of workers that the server runs")
    command.add_number(parser, "--reloads", int, 0, 1000, 0, "number of consecutive reloads")
    command.add_number(parser, "--kills", int, 0, 1000, 0, "number of workers to kill, one after another")
    parser.add_argument(
        "--take-over", type=int, nargs="?", const=0, metavar="N",
        help="at the end, replace the server with a new one that has N workers (default: the same number)",
    )  # fmt: skip
