"""Computes the demand over time from a web server's access log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from lbdns_shared.errors import ConfigError
from lbdns_tools.load.access_log import numbered_lines
from lbdns_tools.load.access_log_line import split_line
from lbdns_tools.load.rate_trace import MAX_ROWS
from lbdns_tools.load.request_mix import MAX_ERRORS, raise_findings
from lbdns_tools.scaler.replay.demand_trace import DemandTrace

_FORMAT: Final = 'write lines such as: 192.0.2.7 - - [10/Oct/2026:13:55:36 +0200] "GET / HTTP/1.1" 200 2326'


def read_logged_demand(path: Path, period: float) -> DemandTrace:
    """Return the request rate in each period of ``period`` seconds. Lines may be out of order; empty lines are skipped.

    All requests count, even malformed ones, because each of them costs the server time. The trace begins and ends at
    full periods of Unix time. Raises ConfigError with one error per invalid line, but at most eleven errors.
    """
    counts: Counter[int] = Counter()
    wrong: list[str] = []
    for number, line in numbered_lines(path):
        try:
            time, _ = split_line(line)
        except ValueError:
            if len(wrong) <= MAX_ERRORS:
                wrong.append(f"{path}:{number}: not a line of the common or combined log format; {_FORMAT}")
            continue
        counts[int(time // period)] += 1
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
