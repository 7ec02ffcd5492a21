"""Checks that each metric has a sensor and a row in the docs, and that a new metric needs only a row and a module."""

from __future__ import annotations

from pathlib import Path

import pytest

import lbdns_agent.metrics
from lbdns_agent.host_sampler import HostSampler
from lbdns_agent.metrics import METRIC_SENSORS, load_sensors
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_shared.metric_catalogue import CATALOGUE, MetricDescription
from tests.agent.fixtures import host_with_kernel

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "agent.md"


def test_every_metric_of_the_catalogue_has_a_sensor() -> None:
    assert list(METRIC_SENSORS) == list(CATALOGUE)
    assert METRIC_SENSORS["cpu_idle"] is METRIC_SENSORS["cpu_steal"], "metrics of one source share its sensor"


def test_a_new_metric_is_a_row_of_the_catalogue_and_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "processes.py").write_text(
        "from lbdns_agent.sensor import Sensor\n"
        "def read(host):\n"
        "    return int(host.proc.read('loadavg').split()[3].partition(b'/')[2])\n"
        "SENSOR = Sensor('/proc/loadavg', read, lambda before, now, seconds: {'processes': float(now)})\n"
    )
    monkeypatch.setattr(lbdns_agent.metrics, "__path__", [*lbdns_agent.metrics.__path__, str(tmp_path)])
    catalogue = {**CATALOGUE, "processes": MetricDescription("tasks", "processes and threads", None, "processes")}
    sample = HostSampler(host_with_kernel("6.1"), SensorTasks(), load_sensors(catalogue)).sample(0.0, 1.0)
    text = (Path(__file__).parents[2] / "fixtures/proc/6.1/loadavg").read_text()
    assert sample.metrics["processes"] == int(text.split()[3].partition("/")[2])
    assert "load1" in sample.metrics


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_metric_has_a_row_in_the_docs(name: str) -> None:
    assert f"| `{name}` |" in DOCS.read_text("utf-8")
