"""Outcomes with a made-up course: what started and ended in each second, and what the machines did meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lbdns_tools.lab.case import Case, Outcome, Sample
from lbdns_tools.load.figures import figures
from lbdns_tools.load.output import Point, Row
from lbdns_tools.load.tally import Tally

BEGUN = 1000.0


def course(
    counts: Sequence[tuple[int, float, int]],
    selection: str = "best",
    *,
    cpu: Mapping[str, float] | None = None,
    rate: float | None = None,
    **more: str | float,
) -> Outcome:
    """``counts`` are, second by second: how many requests start, how long they take, how many of them fail."""
    tally = Tally()
    for second, (count, latency, failed) in enumerate(counts):
        for place in range(count):
            error = "refused" if place < failed else ""
            tally.add(second + (place + 0.5) / count, latency, 0.001, 0.001, 1000, "198.18.1.1", error)
    row = Row(Point("1k", None, rate, "connection", False), 1, figures(tally, float(len(counts))), tally, BEGUN)
    samples = [Sample(BEGUN + n + 1, cpu, dict.fromkeys(cpu, 20_000_000)) for n in range(len(counts))] if cpu else []
    return Outcome(Case(selection, "1k", "connection", "best.hobbit", "farm", more), row, tuple(samples))
