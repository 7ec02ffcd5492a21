"""The benchmark of scrapes runs, and what it says can be so."""

from __future__ import annotations

from pathlib import Path

from lbdns_tools.bench.scrape import make_farm, measure


async def test_a_small_farm(tmp_path: Path) -> None:
    found = await measure(make_farm(tmp_path, pools=2, members=11))
    assert found.members == 11
    # Score, usable, age, quarantined, ramp, capacity and three policies
    assert found.samples > 9 * 11
    assert 0 < found.longest_step_ms <= found.work_ms
    assert found.until_it_is_told_ms > 0
    assert found.prometheus_client_ms > 0
