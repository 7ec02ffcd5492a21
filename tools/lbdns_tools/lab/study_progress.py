"""Displays the progress of a running study with a line for every measurement and, on a terminal, a progress bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.study_plan import StudyPlan, StudyStep

#: s; the remaining time is estimated from the steps of this period. A step takes about ten seconds, but steps differ
ESTIMATED_OVER: Final = 600.0


class StudyProgress:
    """Displays a study's progress on a console. Without a progress bar, the display also reports the start of each
    step."""

    def __init__(self, console: Console, study: StudyPlan, bar: Progress | None) -> None:
        self._console, self._study, self._bar = console, study, bar
        self._task: TaskID | None = bar.add_task("", total=study.seconds) if bar else None
        self._begun = 0

    def building(self, farm: str) -> None:
        self._show(f"building farm {farm}")

    def begins(self, step: StudyStep) -> None:
        self._begun += 1
        self._show(f"{self._begun}/{len(self._study.steps)} {step.name}")

    def measured(self, outcome: MeasuredOutcome) -> None:
        self._print(f"  {in_a_line(outcome)}")

    def ends(self, step: StudyStep, error: LbdnsError | None) -> None:
        if error:
            self._print(f"  failed: {step.name}: {error}")
        if self._bar and self._task is not None:
            self._bar.advance(self._task, step.seconds)

    def _show(self, what: str) -> None:
        if self._bar and self._task is not None:
            self._bar.update(self._task, description=what)
        else:
            self._print(what)

    def _print(self, what: str) -> None:
        self._console.print(what, markup=False, highlight=False, soft_wrap=True)


def in_a_line(outcome: MeasuredOutcome) -> str:
    """Return a line of text with a case and its main figures, or "no result" if there are none."""
    case, point, figures = outcome.case, outcome.row.point, outcome.row.figures
    load = f"{point.clients} clients" if point.clients else f"{point.rate_per_s:g}/s" if point.rate_per_s else ""
    what = ", ".join(word for word in (case.farm, case.selection, case.workload, case.resolve, load) if word)
    if figures.requests_per_s is None or figures.mean_s is None or figures.p95_s is None:
        return f"{what}: no result"
    failed = f", {figures.error_percent:.2g} % failed" if figures.error_percent else ""
    saturated = f", limited by the load generator: {figures.saturated}" if figures.saturated else ""
    times = f"mean {1000 * figures.mean_s:.0f} ms, p95 {1000 * figures.p95_s:.0f} ms"
    return f"{what}: {figures.requests_per_s:.4g} requests/s, {times}{failed}{saturated}"


@contextmanager
def watching(study: StudyPlan, console: Console) -> Iterator[StudyProgress]:
    """Yield a progress display. If the console is a terminal, the display includes a progress bar."""
    if not console.is_terminal:
        yield StudyProgress(console, study, None)
        return
    left, what = TextColumn("left:"), TextColumn("{task.description}")
    columns = (BarColumn(), TimeElapsedColumn(), left, TimeRemainingColumn(), what)
    with Progress(*columns, console=console, transient=True, speed_estimate_period=ESTIMATED_OVER) as bar:
        yield StudyProgress(console, study, bar)
