"""Checks a short run of the comparison with other load generators; reliable figures require an idle machine."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from lbdns_tools.bench.load_generator_speed import difference, measure
from tests.needs import needs


def test_difference() -> None:
    assert difference(110.0, 100.0) == pytest.approx(0.1)
    assert difference(1.0, 0.0) == float("inf")


@needs(programs=("apache2", "ab", "wrk", "httperf"), root=True)
def test_every_generator_gets_answers(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    core = min(before)
    options = argparse.Namespace(seconds=1.0, concurrency=10, rate=20.0, repeats=1, server_core=core, load_core=core)
    try:
        result = measure(options, tmp_path)
    finally:
        os.sched_setaffinity(0, before)
    for way in ("keep-alive off", "keep-alive on"):
        assert all(each["requests_per_s"] > 0 for each in result[way].values())
        assert result[way]["lbdns-load"]["failed"] == 0
    assert set(result["cgi"]) == {"lbdns-load", "ab", "wrk"}
    assert result["rate"]["httperf"]["mean_ms"] > 0
    assert result["sleep"]["lbdns-load"]["mean_ms"] > 200 < result["sleep"]["httperf"]["mean_ms"]
    assert result["rate"]["httperf"]["runs"][0]["failed"] == result["rate"]["lbdns-load"]["runs"][0]["failed"] == 0
