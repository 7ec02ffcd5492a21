"""Divides a run into windows with rates, failures and response times, and finds the rate at which the farm fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.load.result_rows import ResultRow


@dataclass(frozen=True, slots=True)
class RunWindow:
    """A time window within a run. ``middle_s`` is the middle of the window in seconds since the start of the run. Rates
    are in requests/s.

    ``response_s`` is the response time according to Little's law: the number of outstanding requests divided by the
    completion rate. It is None if no request was completed. Outstanding requests are counted once a second. While few
    requests are outstanding, ``response_s`` is therefore inaccurate.
    """

    middle_s: float
    started: float
    ok: float
    failed: float
    response_s: float | None

    @property
    def failed_share(self) -> float:
        ended = self.ok + self.failed
        return self.failed / ended if ended else 0.0


def windows(row: ResultRow, length_s: int = 1) -> list[RunWindow]:
    """Return a run's windows of ``length_s`` seconds each, up to the last second in which a request was sent."""
    series = row.tally.series()
    while series and not series[-1][1]:
        series.pop()
    under_way = [0, *accumulate(started - ok - failed for _, started, ok, failed in series)]
    found = []
    for at in range(0, len(series), length_s):
        part = series[at : at + length_s]
        inside = under_way[at : at + len(part) + 1]
        mean_inside = (sum(inside) - (inside[0] + inside[-1]) / 2) / len(part)
        started, ok, failed = (sum(second[place] for second in part) / len(part) for place in (1, 2, 3))
        response_s = mean_inside / (ok + failed) if ok + failed else None
        found.append(RunWindow(part[0][0] + len(part) / 2, started, ok, failed, response_s))
    return found


def cpu(outcome: MeasuredOutcome, groups: Sequence[str]) -> list[tuple[float, float]]:
    """Return (time, CPU use) pairs.

    The time is in seconds since the start of the run. The CPU use is the total of ``groups``, as a percentage of one
    core.
    """
    begun = outcome.row.begun
    if begun is None:
        return []
    return [
        (sample.time - begun, sum(sample.cpu[group] for group in groups))
        for sample in outcome.samples
        if all(group in sample.cpu for group in groups)
    ]


def broke_at(parts: Sequence[RunWindow], limit_s: float, failed_share: float) -> tuple[float | None, str]:
    """Return the rate in the first window that exceeds a limit, and a text that states how the limit was exceeded.

    If no window exceeds a limit, return (None, "").
    """
    for part in parts:
        if part.failed_share > failed_share:
            return part.started, f"{100 * part.failed_share:.3g} % failed"
        if part.response_s is not None and part.response_s > limit_s:
            return part.started, f"responses took {part.response_s:.2g} s"
    return None, ""
