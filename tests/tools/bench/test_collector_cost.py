"""Checks a short run of the collector benchmark: it counts accepted reports, and begins when all members report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lbdns_tools.bench.collector_cost import measure, tables
from tests.end_to_end.process import eventually


def test_a_small_farm(tmp_path: Path) -> None:
    found: dict[str, Any] = {}

    def is_lossless() -> bool:
        """Return whether no report was lost. If a busy machine stops the collector for long, its buffer overflows."""
        found.update(measure(argparse.Namespace(agents=250, interval=0.5, seconds=2.0, follow=True), tmp_path))
        assert found["dropped"] == {}
        return (found["accepted"], found["lost"], found["overflows"]) == (found["sent"], 0, 0)

    eventually(is_lossless, "no report is lost", 120)
    assert found["sent"] > 250
    assert found["lost_percent"] == 0
    assert found["cpu_us_per_report"] > 0
    assert 10 < found["rss_mb"] < 500
    assert found["lag_p50_ms"] > 0
    assert found["lag_p50_ms"] <= found["lag_p99_ms"] <= found["lag_max_ms"]
    assert found["follower_events"] > 0
    assert list(tables(found))
