"""Arrival rates from CSV: a column of requests/s, or of anything that goes with it, scaled to least and most."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lbdns.errors import ConfigError
from lbdns.toml_table import nearest
from lbdns_tools.load.mix import read_lines, tell
from lbdns_tools.load.sweep import MAX_RATE

DELIMITERS: Final = ",;\t"
MAX_ROWS: Final = 1_000_000  # a row a second for more than a week

Row = tuple[int, list[str]]  # the line's number, and its cells


def read_trace(path: Path, column: str = "", span: tuple[float, float] | None = None) -> tuple[float, ...]:
    """The rates of a file, scaled to ``span``, least and most: of its only column, or of the one called ``column``.

    A column is called by its heading, or by its number from 1. A first line with a word in that column is a header;
    empty lines and ``# comments`` are skipped. Raises ConfigError with what is wrong, line by line.
    """
    index, rows = _column(path, _rows(path), column)
    values: list[float] = []
    wrong: list[str] = []
    for line, cells in rows:
        cell = cells[index].strip() if index < len(cells) else ""
        value = _number(cell)
        if value is None:
            wrong.append(f"{path}:{line}: column {column or index + 1}: {cell!r} is not a number from 0 up")
        else:
            values.append(value)
    if not rows:
        wrong.append(f"{path}: there are no rates in it; write one a line")
    tell(wrong)
    rates = scale(values, *span) if span else tuple(values)
    if not 0 < max(rates) <= MAX_RATE:
        what = f"the highest rate is {max(rates):g}/s, not above 0 and up to {MAX_RATE:g}"
        raise ConfigError(f"{path}: {what}; scale it, with a least and a most")
    return rates


def scale(rates: Sequence[float], least: float, most: float) -> tuple[float, ...]:
    """The same curve between ``least`` and ``most``, linearly; where it is level all along, at ``most``."""
    low, high = min(rates), max(rates)
    if high == low:
        return tuple(most for _ in rates)
    # Weighted from both ends, so that the lowest and the highest are met exactly
    return tuple((least * (high - rate) + most * (rate - low)) / (high - low) for rate in rates)


def _rows(path: Path) -> list[Row]:
    lines = [
        (number, line) for number, line in enumerate(read_lines(path), 1) if line.strip() and line.strip()[0] != "#"
    ]
    if len(lines) > MAX_ROWS:
        raise ConfigError(f"{path}: {len(lines)} rows are more than {MAX_ROWS}; take means of several")
    if not lines:
        return []
    first = lines[0][1]
    delimiter = max(DELIMITERS, key=first.count)
    try:
        return [(number, next(csv.reader([line], delimiter=delimiter, strict=True))) for number, line in lines]
    except csv.Error as error:
        raise ConfigError(f"{path}: is no CSV: {error}") from None


def _column(path: Path, rows: list[Row], column: str) -> tuple[int, list[Row]]:
    """Which column is meant, and the rows without the header."""
    if not rows:
        return 0, rows
    first = [cell.strip() for cell in rows[0][1]]
    if column in first and _number(column) is None:
        return first.index(column), rows[1:]
    known = [name for name in first if _number(name) is None]
    if column.isascii() and column.isdigit():
        index = int(column) - 1
        if not 0 <= index < len(first):
            raise ConfigError(f"{path}: there is no column {column}, but {len(first)} of them, counted from 1")
    elif column:
        raise ConfigError(f"{path}: there is no column {column!r}{nearest(column, known) or ', nor any header'}")
    elif len(first) > 1:
        names = f": {', '.join(known)}" if known else ""
        raise ConfigError(f"{path}: there are {len(first)} columns; say which by its name or its number from 1{names}")
    else:
        index = 0
    return index, rows[1:] if _is_heading(first[index]) else rows


def _is_heading(cell: str) -> bool:
    """Whether a cell is a word, and not a rate that somebody mistyped."""
    return bool(cell) and (cell[0].isalpha() or cell[0] == "_") and cell.lower() not in ("nan", "inf", "infinity")


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
