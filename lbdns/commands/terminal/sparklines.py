"""Draw values as lines of bars, one character each, for a terminal. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Final

BLOCKS: Final = "▁▂▃▄▅▆▇█"
LETTERS: Final = "_.-=+*%#"  # for terminals without block characters
ABOVE: Final = "↑"  # stands for a bar that exceeds the scale
PERCENTILE: Final = 0.95  # of the bars above the lower end of the scale
CLIPPED: Final = 2.0  # times that percentile; higher bars exceed the scale


def sparkline(values: Sequence[float | None], width: int, top: float | None = None, steps: str = BLOCKS) -> str:
    """Return a sparkline of the newest ``width`` values, with the newest on the right and blanks for missing values.

    The tallest block represents ``top``, or the greatest displayed value if ``top`` is None. The shortest block
    represents 0.
    """
    newest = values[-width:] if width > 0 else ()
    highest = max((value for value in newest if value is not None), default=0.0) if top is None else top
    return "".join(_step(value, highest, steps) for value in newest).rjust(max(0, width))


def _step(value: float | None, highest: float, steps: str) -> str:
    if value is None:
        return " "
    part = value / highest if highest > 0 else 0.0
    return steps[min(len(steps) - 1, max(0, int(part * len(steps))))]


def bar_means(values: Sequence[float | None], width: int) -> list[float | None]:
    """Return one item for each of at most ``width`` bars: the mean of the bar's values, or None if it has none."""
    count = min(width, len(values))
    pieces = (values[at * len(values) // count : (at + 1) * len(values) // count] for at in range(count))
    known = ([value for value in piece if value is not None] for piece in pieces)
    return [fmean(piece) if piece else None for piece in known]


def bar_scale(means: Sequence[float], low: float) -> tuple[float, bool]:
    """Return two values: the value that a full bar represents, and whether any bar exceeds this value.

    Usually, the value of the highest bar is the full scale. Bars that are much higher than a high percentile are cut
    off at the height of the highest other bar, so that differences between the other bars remain visible. The
    percentile excludes bars at ``low``, because a metric may be 0 most of the time.
    """
    highest = max(means)
    raised = sorted(mean for mean in means if mean > low)
    usual = raised[math.ceil(PERCENTILE * len(raised)) - 1] if raised else highest
    limit = low + CLIPPED * (usual - low)
    return (highest, False) if highest <= limit else (max(mean for mean in raised if mean <= limit), True)


def draw_bars(means: Sequence[float | None], low: float, high: float) -> str:
    """Return a bar for each mean, ABOVE for each mean that exceeds the scale, and a blank for each missing mean."""
    bars = sparkline([None if mean is None else mean - low for mean in means], len(means), high - low)
    return "".join(ABOVE if mean is not None and mean > high else bar for bar, mean in zip(bars, means, strict=True))
