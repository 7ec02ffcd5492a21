"""Draw a sparkline: a row of characters that shows how a value developed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

BLOCKS: Final = "▁▂▃▄▅▆▇█"
LETTERS: Final = "_.-=+*%#"  # for terminals without block characters


def sparkline(values: Sequence[float | None], width: int, top: float | None = None, steps: str = BLOCKS) -> str:
    """Return a sparkline of the newest ``width`` values, the newest at the right; a blank for a missing value.

    ``top`` is the value of a full block, the greatest of the values if None; 0 is an empty one.
    """
    newest = values[-width:] if width > 0 else ()
    highest = max((value for value in newest if value is not None), default=0.0) if top is None else top
    return "".join(_step(value, highest, steps) for value in newest).rjust(max(0, width))


def _step(value: float | None, highest: float, steps: str) -> str:
    if value is None:
        return " "
    part = value / highest if highest > 0 else 0.0
    return steps[min(len(steps) - 1, max(0, int(part * len(steps))))]
