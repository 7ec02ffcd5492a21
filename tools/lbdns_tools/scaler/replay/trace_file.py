"""Reads and writes traces of demand as CSV with the columns time_s and requests_per_s."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError
from lbdns_tools.load.load_option_parsers import MAX_RATE
from lbdns_tools.load.rate_trace import read_rows
from lbdns_tools.load.request_mix import raise_findings
from lbdns_tools.scaler.replay.demand_trace import DemandTrace

COLUMNS: Final = ("time_s", "requests_per_s")
MAX_TIME: Final = 1e11  # s; a later time is in milliseconds, or a mistake
BUILT_IN: Final = {"one-day": "one_day.csv"}  # names that replace a file name


def read_demand_trace(path: Path) -> DemandTrace:
    """Read a trace with the columns ``time_s`` (seconds, ascending) and ``requests_per_s``, in any order.

    Each rate applies until the time in the next row. The last rate applies for the same length of time as the rate
    before it. Other columns, empty lines and ``# comments`` are skipped. Raises ConfigError with one error per invalid
    line.
    """
    if str(path) in BUILT_IN:
        with as_file(files(__package__) / "traces" / BUILT_IN[str(path)]) as built_in:
            return read_demand_trace(built_in)
    rows = read_rows(path)
    if not rows:
        raise ConfigError(f"{path}: the file contains no rates; write the columns {' and '.join(COLUMNS)}")
    heading = [cell.strip() for cell in rows[0][1]]
    for column in COLUMNS:
        if column not in heading:
            what = f"the header must contain the columns {' and '.join(COLUMNS)}; {column} is missing"
            raise ConfigError(f"{path}:{rows[0][0]}: {what}{nearest(column, heading)}")
    columns = [heading.index(column) for column in COLUMNS]
    times: list[float] = []
    rates: list[float] = []
    wrong: list[str] = []
    for line, cells in rows[1:]:
        texts = [cells[at].strip() if at < len(cells) else "" for at in columns]
        time, rate = _number(texts[0], MAX_TIME), _number(texts[1], MAX_RATE)
        if time is None:
            wrong.append(f"{path}:{line}: time_s: must be a number of seconds of at least 0, not {texts[0]!r}")
        elif times and time <= times[-1]:
            wrong.append(
                f"{path}:{line}: time_s: must be above {times[-1]:.15g}, the time in the row before, not {texts[0]}"
            )
        if rate is None:
            wrong.append(f"{path}:{line}: requests_per_s: must be a number from 0 to {MAX_RATE:g}, not {texts[1]!r}")
        times += [] if time is None else [time]
        rates += [] if rate is None else [rate]
    if len(rows) < 3:
        wrong.append(f"{path}: the trace must have at least two rows below the header, not {len(rows) - 1}")
    raise_findings(wrong)
    return DemandTrace(tuple(times), tuple(rates), 2 * times[-1] - times[-2])


def csv_lines(trace: DemandTrace, comment: str = "") -> Iterator[str]:
    """Yield a trace as lines of CSV without line ends. If ``comment`` is given, the first line contains it."""
    if comment:
        yield f"# {comment}"
    yield ",".join(COLUMNS)
    for time, rate in zip(trace.times, trace.rates, strict=True):
        yield f"{time:.15g},{rate:.2f}"


def _number(text: str, most: float) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= most else None
