"""Reads a trace of arrival rates from a CSV column. Rates are in requests/s, or in any unit if the caller scales
them."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError
from lbdns_tools.load.load_option_parsers import MAX_RATE
from lbdns_tools.load.request_mix import raise_findings, read_lines

DELIMITERS: Final = ",;\t"
MAX_ROWS: Final = 1_000_000  # a row per second for more than a week

TraceRow = tuple[int, list[str]]  # the line's number, and its cells


def read_trace(path: Path, column: str = "", span: tuple[float, float] | None = None) -> tuple[float, ...]:
    """Return the rates in ``column`` of a CSV file. If ``span`` is given, the rates are scaled to that range.

    ``column`` is a heading or a column number, counted from 1. ``column`` may be omitted if the file has a single
    column. The first line is a header if its cell in ``column`` begins with a letter or an underscore. Empty lines and
    ``# comments`` are skipped. Raises ConfigError with one error per invalid line.
    """
    index, rows = _column(path, read_rows(path), column)
    values: list[float] = []
    wrong: list[str] = []
    for line, cells in rows:
        cell = cells[index].strip() if index < len(cells) else ""
        value = _number(cell)
        if value is None:
            wrong.append(f"{path}:{line}: column {column or index + 1}: must be a number of at least 0, not {cell!r}")
        else:
            values.append(value)
    if not rows:
        wrong.append(f"{path}: the file contains no rates; write one rate per line")
    raise_findings(wrong)
    rates = scale(values, *span) if span else tuple(values)
    check_rates(str(path), rates)
    return rates


def check_rates(name: str, rates: Sequence[float]) -> None:
    """Raise ConfigError unless the highest rate is valid. ``name`` is the name of the file in the error."""
    if not 0 < max(rates) <= MAX_RATE:
        what = f"the highest rate must be above 0 and at most {MAX_RATE:g}/s, not {max(rates):g}"
        raise ConfigError(f"{name}: {what}; specify a minimum and a maximum rate to scale the trace")


def scale(rates: Sequence[float], least: float, most: float) -> tuple[float, ...]:
    """Scale rates linearly to the range from ``least`` to ``most``. If all rates are equal, return ``most`` for each
    rate."""
    low, high = min(rates), max(rates)
    if high == low:
        return tuple(most for _ in rates)
    # Weighted from both ends, so that the lowest and the highest rate are exact
    return tuple((least * (high - rate) + most * (rate - low)) / (high - low) for rate in rates)


def read_rows(path: Path) -> list[TraceRow]:
    """Return the lines of a CSV file without empty lines and ``# comments``. Raises ConfigError."""
    lines = [
        (number, line) for number, line in enumerate(read_lines(path), 1) if line.strip() and line.strip()[0] != "#"
    ]
    if len(lines) > MAX_ROWS:
        raise ConfigError(
            f"{path}: {len(lines)} rows exceed the limit of {MAX_ROWS}; replace groups of rows with averages"
        )
    if not lines:
        return []
    first = lines[0][1]
    delimiter = max(DELIMITERS, key=first.count)
    try:
        return [(number, next(csv.reader([line], delimiter=delimiter, strict=True))) for number, line in lines]
    except csv.Error as error:
        raise ConfigError(f"{path}: not valid CSV: {error}") from None


def _column(path: Path, rows: list[TraceRow], column: str) -> tuple[int, list[TraceRow]]:
    """Return the index of the column, and the rows without the header row."""
    if not rows:
        return 0, rows
    first = [cell.strip() for cell in rows[0][1]]
    if column in first and _number(column) is None:
        return first.index(column), rows[1:]
    known = [name for name in first if _number(name) is None]
    if column.isascii() and column.isdigit():
        index = int(column) - 1
        if not 0 <= index < len(first):
            raise ConfigError(f"{path}: there is no column {column}; column numbers range from 1 to {len(first)}")
    elif column:
        raise ConfigError(
            f"{path}: there is no column {column!r}{nearest(column, known) or '; the file has no header'}"
        )
    elif len(first) > 1:
        names = f": {', '.join(known)}" if known else ""
        raise ConfigError(f"{path}: specify a column by its name or its number (1 to {len(first)}){names}")
    else:
        index = 0
    cell = first[index]  # a heading, unless it is a mistyped rate
    is_heading = (cell[:1].isalpha() or cell[:1] == "_") and cell.lower() not in ("nan", "inf", "infinity")
    return index, rows[1:] if is_heading else rows


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
