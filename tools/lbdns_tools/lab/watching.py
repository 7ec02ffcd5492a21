"""How far a study is: a bar on a terminal, and a line for everything measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lbdns.errors import LbdnsError
from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.presets.preset import Step, Study

#: s over which the time left is estimated: steps take some ten seconds each, and unlike ones follow one another
ESTIMATED_OVER: Final = 600.0


class Watching:
    """A runner's watcher that writes to a console. Without a bar, which step begins is a line too."""

    def __init__(self, console: Console, study: Study, bar: Progress | None) -> None:
        self._console, self._study, self._bar = console, study, bar
        self._task: TaskID | None = bar.add_task("", total=study.seconds) if bar else None
        self._begun = 0

    def building(self, farm: str) -> None:
        self._show(f"building farm {farm}")

    def begins(self, step: Step) -> None:
        self._begun += 1
        self._show(f"{self._begun}/{len(self._study.steps)} {step.name}")

    def measured(self, outcome: Outcome) -> None:
        self._say(f"  {in_a_line(outcome)}")

    def ends(self, step: Step, error: LbdnsError | None) -> None:
        if error:
            self._say(f"  failed: {step.name}: {error}")
        if self._bar and self._task is not None:
            self._bar.advance(self._task, step.seconds)

    def _show(self, what: str) -> None:
        if self._bar and self._task is not None:
            self._bar.update(self._task, description=what)
        else:
            self._say(what)

    def _say(self, what: str) -> None:
        self._console.print(what, markup=False, highlight=False, soft_wrap=True)


def in_a_line(outcome: Outcome) -> str:
    """A case and its main figures; no result is said to be none."""
    case, point, figures = outcome.case, outcome.row.point, outcome.row.figures
    load = f"{point.clients} clients" if point.clients else f"{point.rate_per_s:g}/s" if point.rate_per_s else ""
    what = ", ".join(word for word in (case.farm, case.selection, case.workload, case.resolve, load) if word)
    if figures.requests_per_s is None or figures.mean_s is None or figures.p95_s is None:
        return f"{what}: no result"
    failed = f", {figures.error_percent:.2g} % failed" if figures.error_percent else ""
    saturated = f", the load generator was the limit: {figures.saturated}" if figures.saturated else ""
    times = f"mean {1000 * figures.mean_s:.0f} ms, p95 {1000 * figures.p95_s:.0f} ms"
    return f"{what}: {figures.requests_per_s:.4g} requests/s, {times}{failed}{saturated}"


@contextmanager
def watching(study: Study, console: Console) -> Iterator[Watching]:
    """A watcher, with a bar if the console is a terminal."""
    if not console.is_terminal:
        yield Watching(console, study, None)
        return
    columns = (
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True, speed_estimate_period=ESTIMATED_OVER) as bar:
        yield Watching(console, study, bar)
