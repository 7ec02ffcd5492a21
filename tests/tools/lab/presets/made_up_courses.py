"""Synthetic outcomes with a given CPU use and a given number of requests in each second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lbdns_tools.lab.measuring.case_measurement import MeasuredCase, MeasuredOutcome
from lbdns_tools.lab.measuring.cgroup_sampler import MachineSample
from lbdns_tools.load.request_tally import RequestTally
from lbdns_tools.load.result_rows import LoadPoint, ResultRow
from lbdns_tools.load.run_statistics import run_statistics

BEGUN = 1000.0


def course(
    counts: Sequence[tuple[int, float, int]],
    selection: str = "best",
    *,
    cpu: Mapping[str, float] | None = None,
    rate: float | None = None,
    **more: str | float,
) -> MeasuredOutcome:
    """Return an outcome. ``counts`` lists the number of requests, their latency and the failures for each second."""
    tally = RequestTally()
    for second, (count, latency, failed) in enumerate(counts):
        for place in range(count):
            error = "refused" if place < failed else ""
            tally.add(second + (place + 0.5) / count, latency, 0.001, 0.001, 1000, "198.18.1.1", error)
    row = ResultRow(
        LoadPoint("1k", None, rate, "connection", False), 1, run_statistics(tally, float(len(counts))), tally, BEGUN
    )
    samples = (
        [MachineSample(BEGUN + n + 1, cpu, dict.fromkeys(cpu, 20_000_000)) for n in range(len(counts))] if cpu else []
    )
    return MeasuredOutcome(
        MeasuredCase(selection, "1k", "connection", "best.hobbit", "farm", more), row, tuple(samples)
    )
