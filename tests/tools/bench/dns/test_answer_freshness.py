"""Checks a short run of the freshness benchmark: answers must reflect every report."""

from __future__ import annotations

import argparse
from pathlib import Path

from lbdns_tools.bench.dns.answer_freshness import LIMIT, measure


def test_an_answer_reflects_every_report(tmp_path: Path) -> None:
    results = measure(argparse.Namespace(agents=3, reports=9, interval=0.3), tmp_path)
    assert results["lost"] == 0
    assert 0 < results["p50_ms"] <= results["p99_ms"] < LIMIT * 1000
