"""How far a run is, and showing it on standard error if that is a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from lbdns_tools.load.plan import Closed, Run


@dataclass(frozen=True, slots=True)
class Progress:
    """Of all processes together, the warm-up included; ``share`` of the run is done, 0 to 1."""

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


def done(run: Run, elapsed_s: float, requests: int) -> float:
    """How much of a run is done, 0 to 1: by time, or by requests where they come to their end sooner."""
    shares = [elapsed_s / run.seconds] if run.seconds and math.isfinite(run.seconds) else []
    loads = [phase.load for phase in run.phases]
    if loads and all(isinstance(load, Closed) and load.requests for load in loads):
        shares.append(requests / sum(load.requests for load in loads))
    return max(0.0, min(1.0, max(shares, default=0.0)))


@contextmanager
def shown(visible: bool) -> Iterator[Callable[[Progress], None]]:
    """What to call with the progress of one run after another."""
    if not visible:
        yield lambda progress: None
        return
    columns = (TextColumn("{task.fields[label]}"), BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task, label = bar.add_task("", total=1.0, label=""), ""

        def show(progress: Progress) -> None:
            nonlocal label
            if progress.label != label:
                label = progress.label
                bar.reset(task)  # or the time that is left would go by the run before
            bar.update(task, completed=progress.share, label=label, description=str(progress))

        yield show
