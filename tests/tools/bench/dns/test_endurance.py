"""Tests of the endurance benchmark: its queries, and the growth rate of memory use."""

from __future__ import annotations

from pathlib import Path

import dns.name
import dns.rdatatype
import pytest

from lbdns_tools.bench.dns import endurance


def test_the_slope_is_in_bytes_per_query() -> None:
    # 1000 bytes/s at 10,000 queries/s are 0.1 byte a query, 100 kB a million
    assert endurance.slope([(float(second), 5_000_000 + 1000 * second) for second in range(10)], 10_000) == 100
    assert endurance.slope([(0.0, 1), (1.0, 1), (2.0, 1)], 10_000) == 0
    assert endurance.slope([(0.0, 1)], 10_000) == 0


def test_good_and_random_queries_alternate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endurance, "NAMES", 50)
    lines = endurance.query_file(tmp_path, seed=1).read_text().splitlines()
    assert len(lines) == 100
    assert lines[1::10] == ["best.hobbit A"] * 10


def test_questions_can_be_asked() -> None:
    assert list(endurance.questions(7, 50)) == list(endurance.questions(7, 50))
    found = list(endurance.questions(1, 300))
    assert len({name for name, _ in found}) > 290
    for name, qtype in found:
        dns.name.from_text(name)
        dns.rdatatype.from_text(qtype)
