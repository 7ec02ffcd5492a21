"""What went on in the course of one run, from its counts by the second and the samples meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from lbdns_tools.lab.case import Outcome
from lbdns_tools.load.output import Row


@dataclass(frozen=True, slots=True)
class Window:
    """Some seconds of a run. ``middle_s`` is on the run's clock; rates are requests/s.

    ``response_s`` is the time in the system by Little's law, requests under way divided by the rate at which they end;
    None if none ended. Requests under way are known at the end of each second, so it is rough where few are.
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


def windows(row: Row, length_s: int = 1) -> list[Window]:
    """The run in parts of ``length_s``, up to the last second in which a request started."""
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
        found.append(Window(part[0][0] + len(part) / 2, started, ok, failed, response_s))
    return found


def cpu(outcome: Outcome, groups: Sequence[str]) -> list[tuple[float, float]]:
    """Second of the run, and CPU of these groups together in % of one core; seconds without a sample are left out."""
    begun = outcome.row.begun
    if begun is None:
        return []
    return [
        (sample.time - begun, sum(sample.cpu[group] for group in groups))
        for sample in outcome.samples
        if all(group in sample.cpu for group in groups)
    ]


@dataclass(frozen=True, slots=True)
class Broke:
    """Where a rising load stopped being carried: the rate, and why; None and "" if it was carried to the end."""

    rate: float | None
    why: str


def broke_at(parts: Sequence[Window], limit_s: float, failed_share: float) -> Broke:
    """The first window with longer responses or more failures than that."""
    for part in parts:
        if part.failed_share > failed_share:
            return Broke(part.started, f"{100 * part.failed_share:.3g} % failed")
        if part.response_s is not None and part.response_s > limit_s:
            return Broke(part.started, f"responses took {part.response_s:.2g} s")
    return Broke(None, "")
