"""dnsperf: started, bounded in time and count, and what it prints read."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_tools.bench.dns.processes import BenchError, need, stop

CLIENTS: Final = 4  # sockets that queries come from
OUTSTANDING: Final = 128  # queries that wait at a time: twice a drain; 250 overflow a default receive buffer at times
TIMEOUT: Final = 1.0  # seconds until dnsperf takes a query for lost
MARGIN: Final = 15.0  # seconds dnsperf may take longer than it was told


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of dnsperf came to."""

    sent: int
    answered: int
    seconds: float
    rcodes: dict[str, int]

    @property
    def lost(self) -> int:
        return self.sent - self.answered

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.answered / self.seconds


def parse(text: str) -> Load:
    """Read dnsperf's statistics. Raises BenchError when there are none."""
    found = {
        name: re.search(rf"^ *{name}: +([0-9.]+)", text, re.MULTILINE)
        for name in ("Queries sent", "Queries completed", r"Run time \(s\)")
    }
    sent, answered, seconds = found.values()
    if not (sent and answered and seconds and float(seconds[1]) > 0):
        raise BenchError(f"dnsperf printed no statistics:\n{text[-1500:]}")
    codes = re.search(r"^ *Response codes: +(.*)$", text, re.MULTILINE)
    rcodes = {name: int(count) for name, count in re.findall(r"(\w+) (\d+) \(", codes[1] if codes else "")}
    return Load(int(sent[1]), int(answered[1]), float(seconds[1]), rcodes)


def latencies(text: str) -> list[float]:
    """Milliseconds of each answered query, from what dnsperf prints with -v ("> NOERROR best.hobbit A 0.000295")."""
    return [1000 * float(match) for match in re.findall(r"^> [A-Z]\w+ \S+ \S+ ([0-9.]+)$", text, re.MULTILINE)]


@dataclass(frozen=True, slots=True)
class Run:
    """How dnsperf is to ask: for ``seconds``, or the whole file ``runs`` times; at most ``rate`` queries/s."""

    port: int
    queries: Path
    core: int
    seconds: float = 0.0
    runs: int = 0
    rate: float = 0.0
    options: tuple[str, ...] = ("-e",)

    def command(self) -> list[str]:
        assert self.seconds or self.runs, "a run has an end"
        words = [need("taskset", "util-linux"), "-c", str(self.core), need("dnsperf", "dnsperf")]
        words += ["-s", "127.0.0.1", "-p", str(self.port), "-d", str(self.queries), *self.options]
        words += ["-q", str(OUTSTANDING), "-c", str(CLIENTS), "-T", "1", "-t", str(TIMEOUT)]
        if self.seconds:
            words += ["-l", f"{self.seconds:g}"]
        if self.runs:
            words += ["-n", str(self.runs)]
        if self.rate:
            words += ["-Q", str(int(self.rate))]
        return words


class Background:
    """A dnsperf that runs beside something else."""

    def __init__(self, run: Run) -> None:
        # Files, not pipes: nobody reads while it runs
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            run.command(),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._errors,
            start_new_session=True,
        )

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def output(self, timeout: float) -> str:
        """All that it printed, once it has ended. Raises BenchError when that takes over ``timeout`` seconds."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise BenchError(f"dnsperf did not end within {timeout:g} s") from None
        for file in (self._output, self._errors):
            file.seek(0)
        if status:
            raise BenchError(f"dnsperf ended with exit status {status}:\n{self._errors.read()[-1500:].decode()}")
        return self._output.read().decode(errors="replace")

    def result(self, timeout: float) -> Load:
        return parse(self.output(timeout))

    def close(self) -> None:
        if not self.ended:
            stop(self.process)
        self._output.close()
        self._errors.close()


@contextlib.contextmanager
def beside(run: Run) -> Iterator[Background]:
    """Run dnsperf while something else is done; whatever happens, it has ended afterwards."""
    background = Background(run)
    try:
        yield background
    finally:
        background.close()


def load(run: Run) -> Load:
    """Ask for ``run.seconds``; what came of it. Raises BenchError."""
    with beside(run) as background:
        return background.result(run.seconds + MARGIN)


def write_queries(path: Path, questions: Iterable[tuple[str, str]]) -> Path:
    """A file of queries, a name and a type a line."""
    path.write_text("".join(f"{name} {qtype}\n" for name, qtype in questions))
    return path
