"""Checks a short run of the history benchmark, which writes a history with the real recorder and reads it back."""

from __future__ import annotations

from pathlib import Path

from lbdns.history.history_reader import HistoryReader
from lbdns_tools.bench.history_size import BEGIN, record_history


def test_a_short_day(tmp_path: Path) -> None:
    found = record_history(tmp_path / "history.db", pools=2, members=4, seconds=130)
    assert found["met"]
    assert found["bytes"] == (tmp_path / "history.db").stat().st_size
    assert all(found["tiers"].values())
    assert any("130 points of raw" in what for what in found["reads"])
    series = HistoryReader(tmp_path / "history.db").series("pool1", "mem_available", [], BEGIN, BEGIN + 130, 600)
    assert set(series.series) == {"web0", "web1", "web2", "web3"}
