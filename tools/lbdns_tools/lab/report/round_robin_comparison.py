"""Composes sentences that compare ``best`` with ``round_robin``, and warnings about a slow load generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report.outcome_index import mean_of

NOT_WORSE: Final = 1.05  # times round robin's
#: A difference of up to this many lost requests counts as chance, whatever the ratio
FEW: Final = 5
#: Name, figure, unit
COMPARED: Final = (
    ("successful requests", "requests_per_s", "/s"),
    ("mean response", "mean_ms", " ms"),
    ("95 % response", "p95_ms", " ms"),
    ("99 % response", "p99_ms", " ms"),
    ("lost", "failed", " requests"),
)


def beside_round_robin(outcomes: Sequence[MeasuredOutcome]) -> list[str]:
    """Return sentences with a verdict and the figures of ``best`` and ``round_robin``, or [] if either selection is
    missing."""
    mine, theirs = ([o for o in outcomes if o.case.selection == name] for name in ("best", "round_robin"))
    figures: list[str] = []
    worse: list[str] = []
    for what, name, unit in COMPARED:
        value, other = mean_of(mine, name), mean_of(theirs, name)
        if value is None or other is None:
            continue
        figures.append(f"{what} {value:.4g} and {other:.4g}{unit}")
        if name == "requests_per_s":
            is_worse = value * NOT_WORSE < other
        else:
            is_worse = value > NOT_WORSE * other + (FEW if name == "failed" else 0)
        worse += [what] if is_worse else []
    if not figures:
        return []
    verdict = f"Met: 'best' was at most {100 * (NOT_WORSE - 1):.0f} % worse than 'round_robin' in every figure."
    if worse:
        where = ", ".join(worse)
        verdict = f"Not met: 'best' was more than {100 * (NOT_WORSE - 1):.0f} % worse than 'round_robin' in: {where}."
    return [f"'best' and 'round_robin': {'; '.join(figures)}.", verdict]


def saturated(outcomes: Sequence[MeasuredOutcome]) -> list[str]:
    """Return a warning for each measurement in which the load generator was the bottleneck."""
    found = []
    for outcome in outcomes:
        if why := outcome.row.figures.saturated:
            rate = outcome.row.point.rate_per_s
            what = f"{outcome.case.selection} at {rate:.4g}/s" if rate else outcome.case.selection
            words = "the load generator was the bottleneck, so the farm may perform better than measured"
            found.append(f"{what}: {words} ({why}).")
    return found
