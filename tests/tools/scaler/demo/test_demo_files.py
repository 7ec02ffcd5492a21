"""The files of the scaler's demo: both configurations are valid and fit together, and the key is private."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lbdns.model.farm_reader import load_farm
from lbdns_tools.load.rate_trace import read_rows
from lbdns_tools.scaler.demo.demo_files import ScalerDemoPlan, rates, write
from lbdns_tools.scaler.demo.run_demo import required_ports
from lbdns_tools.scaler.settings.scaler_settings import load_settings


def test_the_configurations_fit_together(tmp_path: Path) -> None:
    plan = ScalerDemoPlan(
        dns_port=5301, report_port=7778, http_port=8063, scaler_port=8064, web_port=8081, highest=30.0
    )
    write(plan, tmp_path)
    farm, scaler = load_farm(tmp_path / "lbdns.toml"), load_settings(tmp_path / "scaler.toml")
    (pool,) = farm.pools
    assert pool.config.join is not None
    network = scaler.provider.settings.network
    assert pool.config.join.networks == (network,)
    assert pool.config.join.permits_name(f"{scaler.scaler.farm}-1")
    assert pool.config.join.max > scaler.scaler.maximum + scaler.scaler.spares
    assert scaler.front_end.settings.url == f"http://{farm.config.web.listen}"
    assert farm.config.web.scaler == f"http://{scaler.scaler.listen}"
    assert scaler.provider.agent.collectors == farm.config.collector.listen
    assert scaler.provider.agent.pool == pool.name
    assert scaler.probe.port == scaler.provider.settings.port == plan.web_port
    assert stat.S_IMODE((tmp_path / "report.key").stat().st_mode) == 0o600


def test_the_load_rises_to_its_highest_rate_and_falls(tmp_path: Path) -> None:
    plan = ScalerDemoPlan(lowest=4.0, highest=50.0)
    found = rates(plan)
    assert max(found) == pytest.approx(plan.highest)
    assert found[-1] < found[-2] < max(found)
    assert min(found) >= plan.lowest
    write(plan, tmp_path)
    rows = [cells for _, cells in read_rows(tmp_path / "load.csv")]
    assert rows[0] == ["requests_per_s"]
    assert [float(cells[0]) for cells in rows[1:]] == pytest.approx(found, abs=0.01)


def test_each_port_has_an_option() -> None:
    ports = list(required_ports(ScalerDemoPlan()))
    assert {port.flag for port in ports} == {
        "--dns-port", "--report-port", "--http-port", "--scaler-port", "--web-port",
    }  # fmt: skip
