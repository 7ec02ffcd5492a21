"""Records the steps of a run: which succeeded, how long each took, and what was found."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Final

_WIDEST: Final = 60  # columns of a step's name in the table


class RunAbortedError(Exception):
    """A step failed, and the later steps would make no sense without it."""


@dataclass(frozen=True)
class StepResult:
    """A step: its name, how long it took, what it found, and the error (an empty string if it succeeded)."""

    name: str
    seconds: float
    found: str = ""
    error: str = ""


@dataclass
class StepReport:
    """The steps so far. ``failures`` are the exceptions that make a step fail; any other exception ends the run."""

    failures: tuple[type[Exception], ...]
    results: list[StepResult] = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic
    show: Callable[[str], None] = print

    def run(self, name: str, step: Callable[[], str | None], *, essential: bool = False) -> None:
        """Run and record ``step``, which returns what it found. Raises RunAbortedError if an essential step fails."""
        began = self.clock()
        found, error = "", ""
        try:
            found = step() or ""
        except self.failures as failure:
            error = f"{failure or type(failure).__name__}\n{getattr(failure, 'stderr', None) or ''}".rstrip()
        result = StepResult(name, round(self.clock() - began, 2), found, error)
        self.results.append(result)
        self.show(f"{table_line(result)}\n{error}".rstrip())
        if error and essential:
            raise RunAbortedError(name)

    def add_failure(self, name: str, error: str) -> None:
        """Record a failure that did not occur in a step."""
        self.results.append(StepResult(name, 0.0, error=error))

    @property
    def failed(self) -> list[StepResult]:
        """The steps that failed."""
        return [result for result in self.results if result.error]

    def table(self) -> str:
        """Return a table of all steps, and the errors below it."""
        total = sum(result.seconds for result in self.results)
        lines = [table_line(result) for result in self.results]
        lines.append(f"{len(self.results)} steps, {len(self.failed)} failed, {total:.0f} s")
        lines += [f"\nFAILED: {result.name}\n{result.error}" for result in self.failed]
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return the report as JSON: the steps in order, whether all succeeded, and how many seconds they took in
        total."""
        document = {
            "succeeded": not self.failed,
            "seconds": round(sum(result.seconds for result in self.results), 1),
            "steps": [asdict(result) for result in self.results],
        }
        return json.dumps(document, indent=1) + "\n"


def table_line(result: StepResult) -> str:
    """Return the line of a step in the table."""
    name = result.name if len(result.name) <= _WIDEST else f"{result.name[: _WIDEST - 3]}..."
    outcome = "FAILED" if result.error else "good"
    return f"{name:<{_WIDEST}}  {outcome:<6}  {result.seconds:6.1f} s  {result.found}".rstrip()
