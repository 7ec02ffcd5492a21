"""Sentences that compare best with round robin ("Met"/"Not met": at most 5 % worse), and load generator warnings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lbdns_tools.lab.measuring.measured_case import MeasuredOutcome
from lbdns_tools.lab.statistics.outcome_index import mean_of

NOT_WORSE: Final = 1.05  # times round robin's
#: Lost requests; a difference up to this is chance, whatever the ratio
FEW: Final = 5
#: Name, figure, factor, unit, and whether less is better
COMPARED: Final = (
    ("successful requests", "requests_per_s", 1.0, "/s", False),
    ("mean response", "mean_s", 1000.0, " ms", True),
    ("95 % response", "p95_s", 1000.0, " ms", True),
    ("99 % response", "p99_s", 1000.0, " ms", True),
    ("lost", "failed", 1.0, " requests", True),
)


def beside_round_robin(outcomes: Sequence[MeasuredOutcome], selection: str = "best") -> list[str]:
    """Return the figures of a selection and of round robin, and a verdict; [] unless both were measured."""
    mine, theirs = ([o for o in outcomes if o.case.selection == name] for name in (selection, "round_robin"))
    figures: list[str] = []
    worse: list[str] = []
    for what, name, times, unit, less in COMPARED:
        value, other = mean_of(mine, name, times), mean_of(theirs, name, times)
        if value is None or other is None:
            continue
        figures.append(f"{what} {value:.4g} and {other:.4g}{unit}")
        if name == "failed":
            is_worse = value > NOT_WORSE * other + FEW
        else:
            is_worse = value > NOT_WORSE * other if less else value * NOT_WORSE < other
        worse += [what] if is_worse else []
    if not figures:
        return []
    verdict = (
        f"Not met: {selection} was more than {100 * (NOT_WORSE - 1):.0f} % worse than round robin in: "
        f"{', '.join(worse)}."
        if worse
        else f"Met: {selection} was never more than {100 * (NOT_WORSE - 1):.0f} % worse than round robin."
    )
    return [f"{selection} and round robin: {'; '.join(figures)}.", verdict]


def saturated(outcomes: Sequence[MeasuredOutcome]) -> list[str]:
    """Return a warning for each measurement that the load generator limited, and not the farm."""
    return [
        f"{_what(outcome)}: the load generator was the bottleneck, so the farm may perform better than shown "
        f"({outcome.row.figures.saturated})."
        for outcome in outcomes
        if outcome.row.figures.saturated
    ]


def _what(outcome: MeasuredOutcome) -> str:
    rate = outcome.row.point.rate_per_s
    return f"{outcome.case.selection} at {rate:.4g}/s" if rate else outcome.case.selection
