from __future__ import annotations

import time

import pytest

from lbdns_agent.agent_options import AgentOptions
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_agent.recorder.disk_table import time_with_zone
from lbdns_agent.recorder.metrics_source import MetricsSource, header, row
from lbdns_shared.metric_catalogue import CATALOGUE

OPTIONS = AgentOptions(name="gandalf", interval=0.2, gateway=None, status=None)


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"load1": 0.5, "cpu_idle": 99.98765}, "now,0.500,99.988"),
        ({"load1": 2.0}, "now,2,"),
        ({"cpu_idle": 100.0}, "now,,100"),
        ({"load1": 123_456_789_012.0, "cpu_idle": 0.0, "run_queue": 1.0}, "now,123456789012,0"),
        ({}, "now,,"),
    ],
)
def test_rows(metrics: dict[str, float], expected: str) -> None:
    assert row("now", ["load1", "cpu_idle"], metrics) == expected
    assert header(["load1", "cpu_idle"]) == "time,load1,cpu_idle"


def test_the_first_row_has_rates_already() -> None:
    tasks = SensorTasks()
    source = MetricsSource(("cpu_idle", "cpu_count"), OPTIONS, tasks)
    start = time.monotonic()
    due = source.begin()
    assert start + 0.2 <= due <= time.monotonic() + 0.2
    assert not tasks.wait(due)
    names, (found,) = source.take(lambda: 1_418_567_227.5)
    assert names == "time,cpu_idle,cpu_count"
    at, idle, cpus = found.split(",")
    assert at == time_with_zone(1_418_567_227.5)
    assert 0.0 <= float(idle) <= 100.0
    assert float(cpus) > 0


def test_a_long_interval_does_not_delay_the_first_row() -> None:
    source = MetricsSource(("load1",), AgentOptions(name="gandalf", interval=600.0, gateway=None), SensorTasks())
    assert source.begin() - time.monotonic() <= 0.5


def test_only_the_selected_sensors_are_read() -> None:
    tasks = SensorTasks()
    MetricsSource(("load1",), AgentOptions(name="gandalf"), tasks).begin()
    assert tasks.all == [], "neither the web server nor the gateway is asked"
    MetricsSource(tuple(CATALOGUE), OPTIONS, tasks)
    assert tasks.all
