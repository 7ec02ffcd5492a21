"""What reading the pages costs DNS: the 99th percentile of an answer while readers ask for pages without a pause.

In each round dnsperf asks at a fixed rate, twice: while the readers ask another server, which has no DNS and answers
as often as lbdns did, with as many bytes (so that both cores have the same other load), and while they ask lbdns. Two
figures: 'kernel' is of a prober that asks beside dnsperf, until the kernel has the answer; 'dnsperf' is what dnsperf
saw. The ratio that counts is the kernel's p99.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psutil
from rich.console import Console

from lbdns_tools.bench.dns import command
from lbdns_tools.bench.dns.dnsperf import MARGIN, Background, Run, beside, latencies, write_queries
from lbdns_tools.bench.dns.farm import BEST, ROUND_ROBIN, Farm
from lbdns_tools.bench.dns.prober import MAX_RATE, probe, query_wire
from lbdns_tools.bench.dns.processes import BenchError, come_first, running
from lbdns_tools.bench.dns.servers import Served, plane_of, serving_lbdns
from lbdns_tools.bench.measuring import percentile
from lbdns_tools.bench.page_load import KEEPERS
from lbdns_tools.ports import free_port

TAKES: Final = "about 5 minutes (farms x (rounds x 2 x (2 s + seconds) + 20 s))"
FIND: Final = 2.0  # seconds of load that find the maximum rate
SETTLE: Final = 1.0  # seconds of readers and load before the prober begins
NICE: Final = -15
THREADS: Final = 0.1  # seconds until dnsperf has started its threads
START: Final = 30.0  # seconds until all readers have something
FIGURES: Final = ("kernel_p50_ms", "kernel_p99_ms", "dnsperf_p50_ms", "dnsperf_p99_ms", "lost")
TARGET: Final = 1.10  # times the p99 without page readers


def page_farm(folder: Path, plane: str, pools: int, members: int) -> tuple[Farm, int, list[str]]:
    """A farm with pages, the port of these, and the members beyond the three that all benchmarks have."""
    farm, port = Farm(folder, plane=plane), free_port()
    names = [[f"p{pool}m{member}" for member in range(members)] for pool in range(pools)]
    flat = [name for pool in names for name in pool]
    addresses = [f"{name} A 127.1.{number // 250}.{number % 250 + 1}\n" for number, name in enumerate(flat)]
    zone = folder / "hobbit.zone"
    zone.write_text(zone.read_text() + "".join(addresses))
    more = "".join(
        f'[[pool]]\nname = "p{number}"\nzone = "hobbit"\nmembers = {json.dumps(pool)}\n'
        f'names = {{ "best.p{number}" = "best" }}\n'
        for number, pool in enumerate(names)
    )
    config = farm.config.read_text().replace('[web]\nlisten = "off"', f'[web]\nlisten = "127.0.0.1:{port}"')
    farm.config.write_text(f"{config}[history]\non = false\n{more}")
    return farm, port, flat


@contextlib.contextmanager
def beside_it(part: str, folder: Path, core: int, **words: object) -> Iterator[Path]:
    """A part of ``page_load`` for the length of a with statement; the file that has what it printed."""
    options = [text for name, value in words.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    log = folder / f"{part}.log"
    with running(part, [sys.executable, "-m", "lbdns_tools.bench.page_load", part, *options], core, log) as process:
        yield log
        process.demand_alive()


def prefer(thread: int) -> None:
    """Let a thread have nearly all of its core if it wants to. Needs root.

    Not by a real-time priority: that would hold up the kernel's own threads, and datagrams with them, whenever there
    is TCP to do.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, NICE)


@contextlib.contextmanager
def beside_at_once(run: Run) -> Iterator[Background]:
    """Run dnsperf so that others at work on its core don't hold it up: its queries would come in bursts then, which no
    server answers at once."""
    with beside(run) as background:
        time.sleep(THREADS)
        for thread in psutil.Process(background.process.pid).threads():
            prefer(thread.id)
        yield background


class Counts:
    """What readers got, of the lines that ``page_load`` prints."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def newest(self) -> dict[str, float]:
        """The newest line, or nothing. Its time is on the monotonic clock."""
        lines = self._log.read_text().split("\n")[:-1]
        found: dict[str, float] = json.loads(lines[-1]) if lines else {}
        return found

    def await_all(self) -> None:
        """Wait until readers have pages and streams events. Raises BenchError."""
        deadline = time.monotonic() + START
        while not ((counts := self.newest()) and counts["answers"] >= KEEPERS and counts["event_bytes"]):
            if time.monotonic() > deadline:
                raise BenchError(f"readers got no pages within {START:g} s: {counts}")
            time.sleep(0.05)


def per_second(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    seconds = after["time"] - before["time"]
    return {f"{name}_per_s": round((after[name] - before[name]) / seconds, 1) for name in after if name != "time"}


class Rounds:
    """One farm, asked over and over."""

    def __init__(self, served: Served, web_port: int, folder: Path, options: argparse.Namespace) -> None:
        self._served, self._web_port, self._folder, self._options = served, web_port, folder, options
        self._queries = write_queries(folder / "queries", (BEST, ROUND_ROBIN))
        run = Run(served.port, self._queries, options.load_core, seconds=FIND)
        with beside_at_once(run) as background:
            self.most = background.result(FIND + MARGIN).rate

    def run(self) -> dict[str, list[dict[str, float]]]:
        found: dict[str, list[dict[str, float]]] = {"dummy": [], "lbdns": []}
        given = self._one(self._web_port)  # how much lbdns gives its readers
        for number in range(self._options.rounds):
            command.progress(f"round {number + 1} of {self._options.rounds}: {given['answers_per_s']:.1f} pages/s")
            for name in ("dummy", "lbdns") if number % 2 else ("lbdns", "dummy"):
                if name == "lbdns":
                    given = self._one(self._web_port)
                    found[name].append(given)
                else:
                    found[name].append(self._beside_dummy(given))
        return found

    def _beside_dummy(self, given: Mapping[str, float]) -> dict[str, float]:
        port = free_port()
        size = int(given["answer_bytes_per_s"] / given["answers_per_s"]) if given["answers_per_s"] else 1
        core, rate, stream_rate = self._options.load_core, given["answers_per_s"], given["event_bytes_per_s"]
        words: dict[str, Any] = {"port": port, "rate": rate, "size": size, "stream_rate": stream_rate}
        with beside_it("dummy", self._folder, core, **words):
            return self._one(port)

    def _one(self, port: int) -> dict[str, float]:
        """The figures of DNS while readers ask at ``port``."""
        options = self._options
        seconds = options.seconds + 2 * SETTLE
        run = Run(
            self._served.port,
            self._queries,
            options.load_core,
            seconds=seconds,
            rate=self.most * options.share,
            options=("-e", "-v"),
        )
        with beside_it("hammer", self._folder, options.load_core, port=port) as log:
            counts = Counts(log)
            counts.await_all()
            with beside_at_once(run) as background:
                probe(self._served.port, query_wire(*BEST), options.rate, SETTLE)
                before, cpu = counts.newest(), self._served.running.cpu_seconds()
                probes = probe(self._served.port, query_wire(*BEST), options.rate, options.seconds)
                after, cpu = counts.newest(), self._served.running.cpu_seconds() - cpu
                own = latencies(background.output(seconds + MARGIN))
        times = (probes.p(50), probes.p(99), percentile(own, 0.5), percentile(own, 0.99), probes.lost)
        figures = dict(zip(FIGURES, times, strict=True))
        figures["server_cpu_percent"] = round(100 * cpu / options.seconds, 2)
        return figures | per_second(before, after)


def measure_farm(folder: Path, options: argparse.Namespace, pools: int, members: int) -> command.Figures:
    folder.mkdir()
    farm, web_port, names = page_farm(folder, options.plane, pools, members)
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(serving_lbdns(farm, options.server_core))
        prefer(served.running.process.pid)  # what other programs do on its core is none of its delays
        if names:
            hosts = folder / "hosts"
            hosts.write_text("\n".join(names))
            words: dict[str, Any] = {"port": farm.report_port, "key_file": folder / "report.key", "hosts": hosts}
            stack.enter_context(beside_it("agents", folder, options.load_core, **words))
        time.sleep(2 * SETTLE)  # everybody has reported
        rounds = Rounds(served, web_port, folder, options)
        found = rounds.run()
        note = f"{farm.note()}; {plane_of(served.running.log.read_text(), options.plane)}"
        return {"note": note, "max_per_s": round(rounds.most), **summary(found), "rounds": found}


def summary(rounds: Mapping[str, list[dict[str, float]]]) -> command.Figures:
    """Medians over the rounds, and of lbdns's figure to the dummy's in the same round."""
    result: command.Figures = {}
    for name, column in rounds.items():
        result[name] = {key: round(statistics.median(one[key] for one in column), 3) for key in column[0]}
    for key in ("kernel_p99", "dnsperf_p99"):
        ours, theirs = ([one[f"{key}_ms"] for one in rounds[name]] for name in ("lbdns", "dummy"))
        result[f"{key}_ratio"] = command.ratios(ours, theirs)
        result[f"{key}_ratios"] = [round(a / b, 3) for a, b in zip(ours, theirs, strict=True) if b]
    return result


def measure(options: argparse.Namespace, folder: Path) -> command.Figures:
    come_first()
    found: command.Figures = {}
    for pools, members in options.farms:
        name = f"{pools} x {members} members" if pools else "3 members"
        command.progress(name)
        found[name] = measure_farm(folder / f"farm{len(found)}", options, pools, members)
    return {"note": next(iter(found.values()))["note"], "farms": found}


def show(figures: command.Figures, console: Console) -> None:
    for name, farm in figures["farms"].items():
        heads = list(farm["lbdns"])
        rows = [(head.replace("_", " "), *(farm[who][head] for who in ("dummy", "lbdns"))) for head in heads]
        rows += [
            (f"{key} lbdns / dummy", "", f"{farm[f'{key}_ratio']} of {farm[f'{key}_ratios']}")
            for key in ("kernel_p99", "dnsperf_p99")
        ]
        title = f"{name}, {farm['max_per_s']} queries/s at most; readers ask ..."
        console.print(command.table(title, ("median of rounds", "dummy", "lbdns"), rows))
    console.print(f"{command.noted(figures)} (target: kernel p99 at most {TARGET:g} times)")


def _farm(text: str) -> tuple[int, int]:
    pools, _, members = text.partition("x")
    if not (pools.isdigit() and members.isdigit() and int(pools) * int(members) <= 10_000):
        raise argparse.ArgumentTypeError(f"{text!r} is no farm, such as 5x200, or 0x0 for the three members alone")
    return int(pools), int(members)


def main() -> int:
    made = command.parser("page", __doc__, TAKES, "--rounds 9")
    made.prog, made.epilog = (str(text).replace("bench.dns.page", "bench.page") for text in (made.prog, made.epilog))
    command.bound(made, "--rounds", int, 1, 50, 7, "rounds")
    command.bound(made, "--seconds", float, 1, 60, 5, "seconds under load in each round, twice")
    command.bound(made, "--share", float, 0.05, 0.95, 0.5, "share of the maximum rate")
    command.bound(made, "--rate", float, 1, MAX_RATE, 1000, "queries/s of the prober")
    made.add_argument(
        "--farms", nargs="+", type=_farm, default=[(0, 0), (5, 200)], metavar="POOLSxMEMBERS",
        help="members beside the three that are asked for (default: 0x0 5x200)",
    )  # fmt: skip
    return command.run(made, measure, show)


if __name__ == "__main__":
    sys.exit(main())
