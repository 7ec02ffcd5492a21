"""Checks the files of the farm with many agents, and to which collectors its agents report."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.model.farm_reader import load_farm
from lbdns_tools.bench.many_agents_farm import PROBED, ManyAgentsFarm, ScaleCase


@pytest.mark.parametrize(
    ("case", "followed", "has_bus"),
    [
        (ScaleCase(450, 1, 2, False), "http://", False),
        (ScaleCase(450, 3, 1, False), "bus", True),
        (ScaleCase(450, 1, 1, True), "bus", True),
    ],
)
def test_the_programs_have_the_same_members(tmp_path: Path, case: ScaleCase, followed: str, has_bus: bool) -> None:
    farm = ManyAgentsFarm(tmp_path / "farm", case)
    configs = sorted((tmp_path / "farm").glob("*/lbdns.toml"))
    assert len(configs) == case.collectors + case.servers
    for path in configs:
        config = load_farm(path).config
        assert sum(len(pool.members) for pool in config.pools) == 450 + len(PROBED)
        assert bool(config.bus.url) == has_bus
        is_server = path.parent.name.startswith("server")
        assert config.collector.connect.startswith(followed if is_server else "")
        assert bool(config.collector.connect) == is_server
    assert bool(farm.target.bus_port) == case.by_bus
    assert len(farm.target.ports) == case.collectors


def test_each_report_reaches_one_collector_over_udp_and_all_over_a_bus() -> None:
    case = ScaleCase(100, 3, 1, False)
    assert sum(map(case.reporting_to, range(3))) == 100
    assert case.copies == 1
    case = ScaleCase(100, 3, 1, True)
    assert [case.reporting_to(number) for number in range(3)] == [100, 100, 100]
    assert case.copies == 3
