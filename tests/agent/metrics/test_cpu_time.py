from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.cgroup.limiting_cgroup import QuotaTimes
from lbdns_agent.metrics import cpu_time
from lbdns_agent.metrics.cpu_time import HostCpuTimes
from tests.agent.fixtures import host_with_kernel, proc_file

HERE, THERE = Path("/a"), Path("/b")


@pytest.mark.parametrize(
    ("kernel", "idle", "steal", "total"),
    [
        ("2.6.32", 1806333, 400, 1823170),
        ("3.10", 16503269, 4320, 16581868),
        ("4.19", 9120934, 44, 9257553),
        ("5.10", 14243244, 59, 14387682),
        ("6.1", 486168, 96, 492976),
    ],
)
def test_parse(kernel: str, idle: int, steal: int, total: int) -> None:
    assert cpu_time.parse(proc_file(kernel, "stat")) == HostCpuTimes(idle, steal, total)


def test_parse_this_kind_of_machine() -> None:
    assert cpu_time.read(host_with_kernel("6.18")) == HostCpuTimes(
        858490, 597, 209040 + 111424 + 47955 + 858490 + 2011 + 1457 + 597
    )


def test_an_old_kernel_knows_no_steal() -> None:
    assert cpu_time.parse(b"cpu  10 20 30 40\ncpu0 10 20 30 40\n") == HostCpuTimes(40, None, 100)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (None, HostCpuTimes(0, 0, 0), {}),
        (HostCpuTimes(100, 5, 1000), HostCpuTimes(150, 15, 1200), {"cpu_idle": 25.0, "cpu_steal": 5.0}),
        (HostCpuTimes(100, 5, 1000), HostCpuTimes(200, 15, 1100), {"cpu_idle": 100.0, "cpu_steal": 10.0}),
        (HostCpuTimes(100, 5, 1000), HostCpuTimes(99, 5, 1100), {"cpu_idle": 0.0, "cpu_steal": 0.0}),  # idle fell back
        (HostCpuTimes(100, 5, 1000), HostCpuTimes(100, 5, 1000), {}),  # no time has passed
        (QuotaTimes(HERE, 0.5, 1.0, 0.0), HostCpuTimes(100, 5, 1000), {}),  # the quota was taken away
    ],
)
def test_of_the_host(before: HostCpuTimes | QuotaTimes | None, now: HostCpuTimes, expected: dict[str, float]) -> None:
    assert cpu_time.values(before, now, 1.0) == pytest.approx(expected)


def test_the_reason_is_given_where_steal_is_not_counted() -> None:
    found = cpu_time.values(HostCpuTimes(100, None, 1000), HostCpuTimes(200, None, 1100), 1.0)
    assert found == {"cpu_idle": 100.0, "cpu_steal": "this system does not count steal time"}


@pytest.mark.parametrize(
    ("before", "now", "seconds", "expected"),
    [
        (None, QuotaTimes(HERE, 0.5, 1.0, 0.0), 1.0, {}),
        (QuotaTimes(HERE, 0.5, 1.0, 0.0), QuotaTimes(HERE, 0.5, 1.2, 0.3), 1.0, {"cpu_idle": 60.0, "cpu_steal": 30.0}),
        (QuotaTimes(HERE, 2.0, 1.0, 0.0), QuotaTimes(HERE, 2.0, 7.0, 0.0), 4.0, {"cpu_idle": 25.0, "cpu_steal": 0.0}),
        # a quota may be overdrawn for a moment, and several processors held back at once
        (QuotaTimes(HERE, 0.5, 1.0, 0.0), QuotaTimes(HERE, 0.5, 1.6, 1.5), 1.0, {"cpu_idle": 0.0, "cpu_steal": 100.0}),
        (QuotaTimes(HERE, 0.5, 1.0, 0.0), QuotaTimes(HERE, 0.7, 1.2, 0.0), 1.0, {}),
        (QuotaTimes(HERE, 0.5, 1.0, 0.0), QuotaTimes(THERE, 0.5, 1.2, 0.0), 1.0, {}),
        (HostCpuTimes(100, 5, 1000), QuotaTimes(HERE, 0.5, 1.2, 0.0), 1.0, {}),
    ],
)
def test_of_a_quota(
    before: HostCpuTimes | QuotaTimes | None, now: QuotaTimes, seconds: float, expected: dict[str, float]
) -> None:
    assert cpu_time.values(before, now, seconds) == pytest.approx(expected)


@given(st.binary() | st.text("cpu 0123456789\n").map(str.encode))
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        times = cpu_time.parse(text)
        assert times.total >= times.idle
