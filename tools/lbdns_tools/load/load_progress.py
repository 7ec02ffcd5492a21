"""The progress of a load run: the share that is done, and the requests so far."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lbdns_tools.load.load_plan import ClosedLoop, LoadRun


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Progress of all processes together, including the warm-up. ``share`` of the run is done, from 0 to 1."""

    label: str
    share: float
    elapsed_s: float
    requests: int
    failed: int
    under_way: int

    def __str__(self) -> str:
        rate = self.requests / self.elapsed_s if self.elapsed_s > 0 else 0.0
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.requests} requests, {rate:.0f}/s, {self.under_way} under way{failed}"


def done(run: LoadRun, elapsed_s: float, requests: int) -> float:
    """Return the share of a run that is done, from 0 to 1: by time or by requests, whichever ends the run sooner."""
    shares = [elapsed_s / run.seconds] if run.seconds and math.isfinite(run.seconds) else []
    loads = [phase.load for phase in run.phases]
    if loads and all(isinstance(load, ClosedLoop) and load.requests for load in loads):
        shares.append(requests / sum(load.requests for load in loads))
    return max(0.0, min(1.0, max(shares, default=0.0)))
