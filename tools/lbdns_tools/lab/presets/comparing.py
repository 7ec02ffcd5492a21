"""best beside round robin in words that are computed: never worse by more than 5 %, and where it is, said. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.presets.loading import mean

NOT_WORSE: Final = 1.05  # times round robin's
#: Requests; so few more that are lost are chance, whatever the ratio
FEW: Final = 5
#: What is compared: words, figure, factor, unit, whether less is better
COMPARED: Final = (
    ("answered well", "requests_per_s", 1.0, "/s", False),
    ("mean response", "mean_s", 1000.0, " ms", True),
    ("95 % response", "p95_s", 1000.0, " ms", True),
    ("99 % response", "p99_s", 1000.0, " ms", True),
    ("lost", "failed", 1.0, " requests", True),
)


def beside_round_robin(outcomes: Sequence[Outcome], selection: str = "best") -> list[str]:
    """What one came to and what the other did, and whether it was worse; nothing if one of them wasn't measured."""
    mine, theirs = ([o for o in outcomes if o.case.selection == name] for name in (selection, "round_robin"))
    said: list[str] = []
    worse: list[str] = []
    for what, name, times, unit, less in COMPARED:
        value, other = mean(mine, name, times), mean(theirs, name, times)
        if value is None or other is None:
            continue
        said.append(f"{what} {value:.4g} and {other:.4g}{unit}")
        if name == "failed":
            is_worse = value > NOT_WORSE * other + FEW
        else:
            is_worse = value > NOT_WORSE * other if less else value * NOT_WORSE < other
        worse += [what] if is_worse else []
    if not said:
        return []
    verdict = (
        f"Not met: {selection} was worse than round robin by more than {100 * (NOT_WORSE - 1):.0f} % in: "
        f"{', '.join(worse)}."
        if worse
        else f"Met: {selection} was nowhere worse than round robin by more than {100 * (NOT_WORSE - 1):.0f} %."
    )
    return [f"{selection} and round robin: {'; '.join(said)}.", verdict]


def saturated(outcomes: Sequence[Outcome]) -> list[str]:
    """A warning for each measurement in which the load generator was the limit, and not what was measured."""
    return [
        f"{_what(outcome)}: the load generator itself was the limit, so the farm may do better than these figures "
        f"({outcome.row.figures.saturated})."
        for outcome in outcomes
        if outcome.row.figures.saturated
    ]


def _what(outcome: Outcome) -> str:
    rate = outcome.row.point.rate_per_s
    return f"{outcome.case.selection} at {rate:.4g}/s" if rate else outcome.case.selection
