"""Runs kxdpgun, a load generator that sends queries by AF_XDP, and parses its output."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_tools.bench.dns.veth_pair import SERVER, VethEnd
from lbdns_tools.bench.measured_processes import BenchmarkError, need, running

MARGIN: Final = 15.0  # seconds kxdpgun may run longer than requested


@dataclass(frozen=True, slots=True)
class KxdpgunResult:
    """The totals that kxdpgun prints after a run."""

    sent: int
    answered: int
    correct: int  # answers with NOERROR


def parse_totals(text: str) -> KxdpgunResult:
    """Parse the totals in kxdpgun's output. Raises BenchmarkError if the output contains none."""
    sent = re.search(r"^total queries: +(\d+)", text, re.MULTILINE)
    if not sent:
        raise BenchmarkError(f"kxdpgun printed no totals:\n{text[-1500:]}")
    answered = re.search(r"^total replies: +(\d+)", text, re.MULTILINE)
    correct = re.search(r"^responded NOERROR: +(\d+)", text, re.MULTILINE)
    return KxdpgunResult(int(sent[1]), *(int(found[1]) if found else 0 for found in (answered, correct)))


@dataclass(frozen=True, slots=True)
class KxdpgunRun:
    """A run that sends the queries in a file to a port of the server for ``seconds``, ``rate`` queries per second."""

    client: VethEnd
    port: int
    queries: Path
    core: int
    rate: int
    seconds: float

    def command(self) -> list[str]:
        return self.client.within(
            need("kxdpgun", "knot-dnsutils"), "-t", f"{self.seconds:g}", "-Q", str(self.rate), "-F", str(self.core),
            "-p", str(self.port), "-I", self.client.device, "-i", str(self.queries), SERVER,
        )  # fmt: skip


def run_kxdpgun(run: KxdpgunRun) -> KxdpgunResult:
    """Run kxdpgun to completion and return its totals. Raises BenchmarkError."""
    with running("kxdpgun", run.command(), run.core, run.queries.with_suffix(".log")) as process:
        return parse_totals(process.output(run.seconds + MARGIN))
