"""Tests of the plot benchmark: its farm, its recorded history, and one round in a real browser."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pytest

from lbdns.history.history_reader import HistoryReader
from lbdns.model.farm_reader import load_farm
from lbdns_tools.bench import plot_speed
from lbdns_tools.bench.plot_speed import POOL, plot_farm, record_until_now
from tests.needs import needs


def test_a_farm_with_a_large_pool(tmp_path: Path) -> None:
    farm, port, names = plot_farm(tmp_path / "farm", 25)
    loaded = load_farm(farm.config)
    pool = next(pool for pool in loaded.pools if pool.name == POOL)
    assert [member.name for member in pool.members] == names
    assert loaded.config.web.listen is not None
    assert loaded.config.web.listen.port == port


def test_the_history_ends_now(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history.db"
    before = time.time()
    record_until_now(path, 3, 60)
    found = HistoryReader(path).series(POOL, "score", [], before - 600, before + 600, 5000)
    assert set(found.series) == {"web0", "web1", "web2"}
    assert found.times[-1] - found.times[0] == pytest.approx(59, abs=1)
    assert found.times[-1] == pytest.approx(before, abs=60)


@needs(programs=("chromium",))
def test_a_round_in_a_browser(tmp_path: Path) -> None:
    options = argparse.Namespace(members=[12], minutes=1.0, rounds=1, server_core=None, load_core=None)
    figures = plot_speed.measure(options, tmp_path)["farms"]["12 members"]
    assert figures["plots"] >= 2
    assert figures["kilobytes"] > 0
    assert 0 < figures["server_ms"] <= figures["total_ms"] < 1000 * plot_speed.LIMIT
