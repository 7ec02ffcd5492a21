"""Reads from a program's /metrics how many reports it has accepted and lost, and waits until its members are steady."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lbdns.client.http_client import HttpLocation, fetch
from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench.measured_processes import BenchmarkError

POLL: Final = 0.25  # seconds between two requests
QUIET: Final = 2.0  # seconds without a report after which a report that is still missing counts as lost
PATIENCE: Final = 60.0  # seconds that a program may take to respond; a saturated one may take long
STEADY: Final = 180.0  # seconds until all members must have reported
MOST_LOST: Final = 0.01  # share of the reports: if more are lost, the cost of a report cannot be measured


def samples(text: str, name: str) -> Iterator[tuple[str, float]]:
    """Yield a pair for each sample of the metric family ``name``: the value of the sample's last label, and the
    sample's value.
    """
    for match in re.finditer(rf'^{name}(?:{{[^}}]*"([^"]*)"}})? (\S+)$', text, re.MULTILINE):
        yield match[1] or "", float(match[2])


@dataclass(frozen=True, slots=True)
class ReportCounts:
    """Reports since a collector's start: those accepted, those dropped by reason, and those that found its buffer
    full."""

    accepted: int
    dropped: Mapping[str, int]
    overflows: int

    @property
    def known_lost(self) -> int:
        return self.overflows + sum(self.dropped.values())


def report_counts(text: str) -> ReportCounts:
    """Return the counts in the text of /metrics."""
    counted = {name: int(value) for name, value in samples(text, "lbdns_reports_total")}
    dropped = {reason: count for reason, count in counted.items() if count and reason != "accepted"}
    overflows = sum(int(value) for _, value in samples(text, "lbdns_report_overflows_total"))
    return ReportCounts(counted.get("accepted", 0), dropped, overflows)


def read_counts(web: HttpLocation) -> ReportCounts:
    """Return a running collector's counts. Raises LbdnsError."""
    return report_counts(metrics_text(web))


def metrics_text(web: HttpLocation) -> str:
    """Return the text of a program's /metrics. Raises LbdnsError if it does not respond within a minute."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return fetch(web, "/metrics").decode()
        except LbdnsError:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL)


def is_steady(text: str, members: int) -> bool:
    """Return whether ``members`` members have reported, and the changes of their states have been announced."""
    reported = sum(count for state, count in samples(text, "lbdns_pool_members") if state != "unknown")
    # The family's last label is the level
    announced = re.findall(r'^lbdns_events_total{kind="state",[^}]*} (\S+)$', text, re.MULTILINE)
    return reported >= members and sum(map(float, announced)) >= members


def await_steady(web: HttpLocation, members: int, limit: float = STEADY) -> None:
    """Wait until ``members`` members have reported to a program, and the program has announced all changes of their
    states. Raises BenchmarkError after ``limit`` seconds."""
    deadline = time.monotonic() + limit
    while not is_steady(metrics_text(web), members):
        if time.monotonic() > deadline:
            raise BenchmarkError(
                f"{web.base}: not all of {members} members have reported within {limit:g} s; use fewer agents, or a "
                "longer --interval"
            )
        time.sleep(POLL)


def await_all(read: Callable[[], ReportCounts], sent: int) -> ReportCounts:
    """Wait until collectors have processed all of ``sent`` reports, and return their counts.

    ``read`` returns the counts of all collectors together. If no report arrives any more, the missing ones are lost.
    """
    counts, last = read(), time.monotonic()
    while counts.accepted + counts.known_lost < sent and time.monotonic() - last < QUIET:
        time.sleep(POLL)
        before, counts = counts, read()
        if counts != before:
            last = time.monotonic()
    return counts


def cost_figures(cpu: float, accepted: int, sent: int, lost: int) -> dict[str, object]:
    """Return the share of lost reports, and the CPU time per accepted report unless too many were lost.

    ``cpu`` is in seconds. All arguments are for the time of the measurement.
    """
    share = lost / sent if sent else 1.0
    found: dict[str, object] = {"lost_percent": round(100 * share, 2)}
    if share > MOST_LOST or not accepted:
        found["note"] = f"no CPU time per report: {100 * share:.1f} % of the reports were lost, more than 1 %"
    else:
        found["cpu_us_per_report"] = round(1e6 * cpu / accepted, 1)
    return found
