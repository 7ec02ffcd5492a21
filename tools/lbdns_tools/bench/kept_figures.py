"""The figures kept in docs/benchmarks.md: reading and rewriting the table there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

from lbdns_shared.errors import LbdnsError

HEAD: Final = "| benchmark | figure | value | unit | conditions | date |"
RULE: Final = "|---|---|---|---|---|---|"
_CHECKOUT: Final = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class KeptFigure:
    """A row of the table: a headline figure of a benchmark, as it was on ``date`` (ISO 8601)."""

    benchmark: str
    figure: str
    value: float
    unit: str
    conditions: str
    date: str


def figures_file(checkout: Path = _CHECKOUT) -> Path:
    """Return the path of benchmarks.md below docs/. Raises LbdnsError outside a checkout."""
    found = sorted(checkout.glob("docs/**/benchmarks.md"))
    if not found:
        raise LbdnsError(f"{checkout / 'docs'}: has no benchmarks.md; run this in a checkout of the project")
    return found[0]


def read_figures(text: str) -> dict[tuple[str, str], KeptFigure]:
    """Return the figures by benchmark and name. Raises LbdnsError if the table is missing or broken."""
    lines = text.splitlines()
    begin, end = _table_rows(lines)
    figures = {}
    for line in lines[begin:end]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        try:
            benchmark, figure, value, *rest = cells
            unit, conditions, date = rest
            figures[benchmark, figure] = KeptFigure(benchmark, figure, float(value), unit, conditions, date)
        except ValueError:
            raise LbdnsError(f"benchmarks.md: not a row of six cells with a number in the third: {line}") from None
    return figures


def with_figures(text: str, figures: Sequence[KeptFigure]) -> str:
    """Return ``text`` with ``figures`` in its table; rows of other figures stay. Raises LbdnsError."""
    lines = text.splitlines()
    begin, end = _table_rows(lines)
    kept = read_figures(text) | {(figure.benchmark, figure.figure): figure for figure in figures}
    lines[begin:end] = [f"| {' | '.join(_cell(value) for value in astuple(row))} |" for row in kept.values()]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _table_rows(lines: Sequence[str]) -> tuple[int, int]:
    """Return the index of the table's first row, and the index after its last."""
    try:
        begin = lines.index(HEAD) + 2
    except ValueError:
        raise LbdnsError(f"benchmarks.md: has no table that begins with {HEAD}") from None
    end = begin
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    return begin, end
