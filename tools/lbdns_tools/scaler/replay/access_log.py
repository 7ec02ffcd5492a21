"""Reads the demand from an access log of a web server in the common or combined format."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from lbdns_shared.errors import ConfigError
from lbdns_tools.load.rate_trace import MAX_ROWS
from lbdns_tools.load.request_mix import MAX_ERRORS, raise_findings
from lbdns_tools.scaler.replay.demand_trace import DemandTrace

#: host identity user [time] "request" status bytes; the combined format adds referrer and user agent
_LINE: Final = re.compile(r'\S+ \S+ .*?\[(\d\d/[A-Za-z]{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "(?:[^"\\]|\\.)*" \d{3} ')
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FORMAT: Final = 'write lines such as: 192.0.2.7 - - [10/Oct/2026:13:55:36 +0200] "GET / HTTP/1.1" 200 2326'


def read_access_log(path: Path, period: float) -> DemandTrace:
    """Return the request rate in each period of ``period`` seconds. Lines may be out of order; empty lines are skipped.

    The trace begins and ends at full periods of Unix time. Raises ConfigError with one error per invalid line, but at
    most eleven errors.
    """
    counts: Counter[int] = Counter()
    wrong: list[str] = []
    try:
        with path.open(encoding="utf-8", errors="replace") as file:  # a log may contain what any client sent
            for number, line in enumerate(file, 1):
                found = _LINE.match(line)
                time = _time(found[1]) if found else None
                if time is not None:
                    counts[int(time // period)] += 1
                elif line.strip() and len(wrong) <= MAX_ERRORS:
                    wrong.append(f"{path}:{number}: not a line of the common or combined log format; {_FORMAT}")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the file: {error.strerror}") from None
    raise_findings(wrong)
    if not counts:
        raise ConfigError(f"{path}: the log contains no requests; {_FORMAT}")
    first, last = min(counts), max(counts)
    if last - first >= MAX_ROWS:
        what = f"the log spans {last - first + 1} periods of {period:g} s, and the limit is {MAX_ROWS}"
        raise ConfigError(f"{path}: {what}; use a longer period or a part of the log")
    places = range(first, last + 1)
    rates = tuple(counts[place] / period for place in places)
    return DemandTrace(tuple(place * period for place in places), rates, (last + 1) * period)


@lru_cache(maxsize=64)  # many requests have the same second
def _time(text: str) -> float | None:
    """Return the Unix time for text such as ``10/Oct/2026:13:55:36 +0200``, or None if the text is not a valid time."""
    day, month, rest = text.split("/", 2)
    if month.lower() not in _MONTHS:
        return None
    year, clock = rest[:4], rest[5:]
    number = _MONTHS.index(month.lower()) + 1  # not %b, which depends on the locale
    try:
        return datetime.strptime(f"{day}/{number:02}/{year} {clock}", "%d/%m/%Y %H:%M:%S %z").timestamp()
    except ValueError:
        return None
