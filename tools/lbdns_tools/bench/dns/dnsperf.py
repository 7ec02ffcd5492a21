"""Runs dnsperf for a given time or a given number of passes over a query file, and parses its output."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_tools.bench.measured_processes import BenchmarkError, MeasuredProcess, need, running

CLIENTS: Final = 4  # sockets from which queries are sent
OUTSTANDING: Final = 128  # unanswered queries: twice what lbdns reads at once; 250 can overflow a receive buffer
TIMEOUT: Final = 1.0  # seconds until dnsperf counts a query as lost
MARGIN: Final = 15.0  # seconds dnsperf may run longer than requested


@dataclass(frozen=True, slots=True)
class DnsperfResult:
    """The statistics that dnsperf prints after one run."""

    sent: int
    answered: int
    seconds: float
    rcodes: dict[str, int]

    @property
    def lost(self) -> int:
        return self.sent - self.answered

    @property
    def rate(self) -> float:
        """The number of answers per second."""
        return self.answered / self.seconds


def parse_statistics(text: str) -> DnsperfResult:
    """Parse the statistics in dnsperf's output. Raises BenchmarkError if the output contains no statistics."""
    found = {
        name: re.search(rf"^ *{name}: +([0-9.]+)", text, re.MULTILINE)
        for name in ("Queries sent", "Queries completed", r"Run time \(s\)")
    }
    sent, answered, seconds = found.values()
    if not (sent and answered and seconds and float(seconds[1]) > 0):
        raise BenchmarkError(f"dnsperf printed no statistics:\n{text[-1500:]}")
    codes = re.search(r"^ *Response codes: +(.*)$", text, re.MULTILINE)
    rcodes = {name: int(count) for name, count in re.findall(r"(\w+) (\d+) \(", codes[1] if codes else "")}
    return DnsperfResult(int(sent[1]), int(answered[1]), float(seconds[1]), rcodes)


def latencies(text: str) -> list[float]:
    """Return each answered query's latency in ms, from dnsperf -v lines such as "> NOERROR best.hobbit A 0.000295"."""
    return [1000 * float(match) for match in re.findall(r"^> [A-Z]\w+ \S+ \S+ ([0-9.]+)$", text, re.MULTILINE)]


@dataclass(frozen=True, slots=True)
class DnsperfRun:
    """A run of dnsperf that lasts ``seconds`` or makes ``runs`` passes over the query file.

    ``rate`` is the maximum rate in queries/s; 0 means no limit.
    """

    port: int
    queries: Path
    core: int
    seconds: float = 0.0
    runs: int = 0
    rate: float = 0.0
    options: tuple[str, ...] = ("-e",)

    def command(self) -> list[str]:
        assert self.seconds or self.runs, "a dnsperf run requires ``seconds`` or ``runs``"
        command = [need("dnsperf", "dnsperf"), "-s", "127.0.0.1", "-p", str(self.port), "-d", str(self.queries)]
        command += [*self.options, "-q", str(OUTSTANDING), "-c", str(CLIENTS), "-T", "1", "-t", str(TIMEOUT)]
        if self.seconds:
            command += ["-l", f"{self.seconds:g}"]
        if self.runs:
            command += ["-n", str(self.runs)]
        if self.rate:
            command += ["-Q", str(int(self.rate))]
        return command


def dnsperf_beside(run: DnsperfRun) -> AbstractContextManager[MeasuredProcess]:
    """Run dnsperf until it finishes or the with statement ends."""
    return running("dnsperf", run.command(), run.core, run.queries.with_suffix(".log"))


def run_dnsperf(run: DnsperfRun) -> DnsperfResult:
    """Run dnsperf to completion and return its statistics. Raises BenchmarkError."""
    with dnsperf_beside(run) as process:
        return parse_statistics(process.output(run.seconds + MARGIN))


def write_queries(path: Path, questions: Iterable[tuple[str, str]]) -> Path:
    """Write a query file with one name and type per line, and return its path."""
    path.write_text("".join(f"{name} {qtype}\n" for name, qtype in questions))
    return path
