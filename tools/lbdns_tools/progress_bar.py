"""Progress bars on standard error, shown only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn


@contextmanager
def count_bar(total: int, unit: str) -> Iterator[Callable[[object], None]]:
    """Show a progress bar for ``total`` items. Yield a function to call with each item that is done.

    The function advances the bar by one item, and displays that item.
    """
    if not sys.stderr.isatty():
        yield lambda item: None
        return
    with _bar(BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn()) as bar:
        task = bar.add_task("", total=total)
        yield lambda item: bar.update(task, advance=1, description=str(item))


@contextmanager
def share_bar(visible: bool) -> Iterator[Callable[[str, float, str], None]]:
    """Yield a function that displays a run's progress, given its label, its completed fraction and a text. Runs must
    not overlap.
    """
    if not visible:
        yield lambda label, share, text: None
        return
    with _bar(TextColumn("{task.fields[label]}"), BarColumn(), TimeRemainingColumn()) as bar:
        task, shown = bar.add_task("", total=1.0, label=""), ""

        def show(label: str, share: float, text: str) -> None:
            nonlocal shown
            if label != shown:
                shown = label
                bar.reset(task)  # otherwise the previous run would count in the estimate of the time left
            bar.update(task, completed=share, label=label, description=text)

        yield show


def _bar(*columns: ProgressColumn) -> Progress:
    return Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True), transient=True)
