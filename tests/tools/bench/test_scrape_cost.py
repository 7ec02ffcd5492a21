"""Checks that a short run of the scrape benchmark produces plausible figures."""

from __future__ import annotations

from pathlib import Path

from lbdns_tools.bench.scrape_cost import make_farm, median_scrape


async def test_a_small_farm(tmp_path: Path) -> None:
    found = await median_scrape(make_farm(tmp_path, pools=2, members=11))
    assert found["members"] == 11
    # Score, usable, age, quarantined, ramp, capacity and three policies
    assert found["samples"] > 9 * 11
    assert 0 < found["longest_step_ms"] <= found["work_ms"]
    assert found["response_ms"] > 0
    assert found["prometheus_client_ms"] > 0
