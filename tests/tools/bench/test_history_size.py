"""The benchmark of the history: small, to show that it drives the real recorder and finds what it wrote."""

from __future__ import annotations

from pathlib import Path

from lbdns.history.reader import Reader
from lbdns_tools.bench.history_size import BEGIN, measure, show


def test_a_short_day(tmp_path: Path) -> None:
    found = measure(tmp_path / "history.db", pools=2, members=4, seconds=130)
    assert found.met
    assert found.bytes == (tmp_path / "history.db").stat().st_size
    assert all(found.tiers.values())
    assert any("130 points of raw" in what for what in found.reads)
    assert "2 x 4 members" in show(found)
    series = Reader(tmp_path / "history.db").series("pool1", "mem_available", [], BEGIN, BEGIN + 130, 600)
    assert set(series.series) == {"web0", "web1", "web2", "web3"}
