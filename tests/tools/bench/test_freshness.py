"""The benchmark of freshness: small, to show that every report is seen in an answer."""

from __future__ import annotations

import math

from lbdns_tools.bench.freshness import LIMIT, measure


def test_every_report_shows() -> None:
    times = measure(agents=3, reports=9, interval=0.3)
    assert len(times) == 9
    assert all(0 < time < LIMIT * 1000 for time in times)
    assert not any(map(math.isinf, times))
