"""How far a long run is, on standard error if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lbdns_tools.sim.runner import Job


@contextmanager
def progress(runs: int) -> Iterator[Callable[[Job], None]]:
    """What to call after each of ``runs`` runs."""
    if not sys.stderr.isatty():
        yield lambda job: None
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=runs)
        yield lambda job: bar.update(task, advance=1, description=f"{job.policy}, seed {job.seed}")
