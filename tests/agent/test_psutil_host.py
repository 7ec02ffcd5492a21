"""Tests of the agent without /proc: metrics come from psutil, and metrics that psutil lacks are reported as missing."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import psutil
import pytest

from lbdns_agent.agent_options import AgentOptions
from lbdns_agent.host_sampler import SHORTEST_DIFFERENCE, HostSample, HostSampler
from lbdns_agent.kernel_files import ProcFiles
from lbdns_agent.metrics import METRIC_SENSORS, cpu_time, disk_activity, network_traffic
from lbdns_agent.missing_values import LINUX_ONLY
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_agent.sensor import MeasuredHost, open_host
from lbdns_agent.webserver.status_page import parse_status_url
from lbdns_shared.errors import LbdnsError
from tests.agent.waiting import PATIENCE
from tests.agent.web import counting, web_server

LINUX_METRICS = {
    "run_queue", "scan_rate", "gateway_ping", "httpd_cpu_seconds", "listen_queue", "blocked_tasks", "page_in",
    "page_out", "task_count",
}  # fmt: skip


class MacTimes(NamedTuple):
    """cpu_times() on macOS."""

    user: float
    nice: float
    system: float
    idle: float


class FreeBsdTimes(NamedTuple):
    """cpu_times() on FreeBSD."""

    user: float
    nice: float
    system: float
    idle: float
    irq: float


def fake_psutil(times: Any, **disk_fields: int) -> Any:
    """Return a fake psutil with one disk, one partition, two interfaces and four CPUs. Disk fields vary by system."""
    disk = SimpleNamespace(read_count=10, write_count=20, read_time=30, write_time=60, **disk_fields)
    nic = SimpleNamespace(bytes_recv=1000, bytes_sent=500)
    return SimpleNamespace(
        cpu_times=lambda: times,
        cpu_count=lambda: 4,
        getloadavg=lambda: (1.5, 1.0, 0.5),
        virtual_memory=lambda: SimpleNamespace(total=8000, available=2000, free=500),
        swap_memory=lambda: SimpleNamespace(free=3000),
        disk_io_counters=lambda perdisk: {"disk0": disk, "cd0": disk},
        net_io_counters=lambda pernic: {"lo0": nic, "en0": nic},
        pids=lambda: [0, 1, 77],
    )


MAC = fake_psutil(MacTimes(10.0, 0.0, 10.0, 80.0))
FREEBSD = fake_psutil(FreeBsdTimes(10.0, 0.0, 5.0, 80.0, 5.0), busy_time=7)


def two_samples(host: MeasuredHost) -> HostSample:
    sampler = HostSampler(host, SensorTasks())
    sampler.sample(PATIENCE, PATIENCE)
    time.sleep(SHORTEST_DIFFERENCE * 1.5)
    assert sampler.quick_read(frozenset(METRIC_SENSORS)) == {}, "there is nothing cheap to read"
    return sampler.sample(PATIENCE, PATIENCE)


@pytest.mark.parametrize(("module", "counts_busy"), [(MAC, False), (FREEBSD, True)], ids=["macOS", "FreeBSD"])
def test_the_metrics_of_other_systems(module: Any, counts_busy: bool, caplog: pytest.LogCaptureFixture) -> None:
    sample = two_samples(MeasuredHost(ProcFiles("/nonexistent"), psutil=module))
    assert (sample.metrics["cpu_count"], sample.metrics["load1"], sample.metrics["mem_available"]) == (4.0, 1.5, 25.0)
    assert (sample.metrics["net_rx"], sample.metrics["net_tx"], sample.metrics["disk_await"]) == (0.0, 0.0, 0.0)
    assert (sample.metrics["load5"], sample.metrics["load15"]) == (1.0, 0.5)
    assert (sample.metrics["mem_free"], sample.metrics["swap_free"]) == (500.0, 3000.0)
    assert sample.metrics["process_count"] == 3.0
    assert ("disk_busy" in sample.metrics) == counts_busy
    assert {name for name, why in sample.missing.items() if why == LINUX_ONLY} == LINUX_METRICS
    assert set(sample.metrics) | set(sample.missing) == set(METRIC_SENSORS)
    assert not any("run_queue" in line for line in caplog.messages), "a system that is not Linux is not a failure"


def test_differences_of_processor_times() -> None:
    before, now = MacTimes(10.0, 0.0, 10.0, 80.0), MacTimes(11.0, 0.0, 10.0, 83.0)
    values = cpu_time.values(cpu_time.read_psutil(fake_psutil(before)), cpu_time.read_psutil(fake_psutil(now)), 4.0)
    assert values == {"cpu_idle": pytest.approx(75.0), "cpu_steal": "this system does not count steal time"}


def test_guest_time_is_counted_once() -> None:
    class LinuxTimes(NamedTuple):
        user: float
        idle: float
        steal: float
        guest: float

    times = cpu_time.read_psutil(fake_psutil(LinuxTimes(10.0, 80.0, 10.0, 5.0)))
    assert (times.idle, times.steal, times.total) == (80.0, 10.0, 100.0)


def test_disks_and_interfaces() -> None:
    assert disk_activity.read_psutil(MAC) == {b"disk0": disk_activity.DiskCounters(30, 90, None)}
    assert disk_activity.read_psutil(FREEBSD) == {b"disk0": disk_activity.DiskCounters(30, 90, 7)}
    assert disk_activity.read_psutil(SimpleNamespace(disk_io_counters=lambda perdisk: None)) == {}
    assert network_traffic.read_psutil(MAC) == {b"en0": (1000, 500)}
    before = {b"disk0": disk_activity.DiskCounters(20, 50, None)}
    values = disk_activity.values(before, disk_activity.read_psutil(MAC), 1.0)
    assert values == {"disk_busy": "the system does not report busy time", "disk_await": 4.0}


def test_an_unknown_number_of_processors_is_missing() -> None:
    module = fake_psutil(MacTimes(1.0, 1.0, 1.0, 1.0))
    module.cpu_count = lambda: None
    sample = two_samples(MeasuredHost(ProcFiles("/nonexistent"), psutil=module))
    assert "psutil can't determine the number of processors" in sample.missing["cpu_count"]
    assert sample.metrics["load1"] == 1.5


def test_without_proc_psutil_is_used(tmp_path: Path) -> None:
    """The agent uses the real psutil, because the agent's /proc contains no stat file."""
    with web_server(counting()) as url:
        options = AgentOptions("gandalf", status=parse_status_url(url))
        host = open_host(options, str(tmp_path))
        assert host.psutil is psutil
        while "busy_workers" not in (sample := two_samples(host)).metrics:
            assert sample.missing["busy_workers"].endswith("no complete response within 5 s")  # on a busy machine
    assert {"cpu_count", "load1", "mem_available", "net_rx", "net_tx", "busy_workers"} <= set(sample.metrics)
    assert 0.0 < sample.metrics["mem_available"] <= 100.0
    assert sample.metrics["cpu_count"] == psutil.cpu_count()
    assert set(sample.missing) >= LINUX_METRICS


def test_with_proc_psutil_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)  # an import would fail
    host = open_host(AgentOptions("gandalf", gateway=None))
    assert host.psutil is None
    assert "run_queue" in HostSampler(host, SensorTasks()).sample(0.0, 1.0).metrics


def test_with_neither_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(LbdnsError, match=r"needs psutil: 'pip install lbdns-agent\[psutil\]'") as raised:
        open_host(AgentOptions("gandalf"), str(tmp_path))
    assert raised.value.exit_status == 1
