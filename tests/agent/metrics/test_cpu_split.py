from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.metrics import cpu_split
from lbdns_agent.metrics.cpu_split import SplitCpuTimes
from tests.agent.fixtures import host_with_kernel, proc_file


@pytest.mark.parametrize(
    ("kernel", "user", "system", "iowait", "total"),
    [
        ("2.6.32", 8031 + 52, 3915 + 7 + 103, 4329, 1823170),
        ("3.10", 39556 + 342, 31065 + 689, 2627, 16581868),
        ("4.19", 91223 + 901, 40122 + 1209, 3120, 9257553),
        ("5.10", 101329 + 391, 39944 + 586, 2129, 14387682),  # guest time is part of user time
        ("6.1", 2456 + 120, 3352 + 80, 704, 492976),
        ("6.18", 209040 + 111424, 47955 + 1457, 2011, 1230974),
    ],
)
def test_parse(kernel: str, user: int, system: int, iowait: int, total: int) -> None:
    times = SplitCpuTimes(user, system, iowait, total)
    assert cpu_split.parse(proc_file(kernel, "stat")) == times
    assert cpu_split.read(host_with_kernel(kernel)) == times


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (None, SplitCpuTimes(1, 1, 1, 10), {}),
        (
            SplitCpuTimes(100, 50, 10, 1000),
            SplitCpuTimes(150, 80, 20, 1200),
            {"cpu_user": 25.0, "cpu_system": 15.0, "cpu_iowait": 5.0},
        ),
        (
            SplitCpuTimes(100, 50, 10, 1000),
            SplitCpuTimes(200, 50, 9, 1100),  # the time that processors wait for I/O may decrease
            {"cpu_user": 100.0, "cpu_system": 0.0, "cpu_iowait": 0.0},
        ),
        (SplitCpuTimes(100, 50, 10, 1000), SplitCpuTimes(100, 50, 10, 1000), {}),  # no time has passed
    ],
)
def test_values(before: SplitCpuTimes | None, now: SplitCpuTimes, expected: dict[str, float]) -> None:
    assert cpu_split.values(before, now, 1.0) == expected


def test_read_psutil() -> None:
    def module(**times: float) -> SimpleNamespace:
        return SimpleNamespace(cpu_times=lambda: SimpleNamespace(_asdict=lambda: times))

    mac = cpu_split.read_psutil(module(user=10.0, nice=1.0, system=5.0, idle=84.0))
    assert mac == SplitCpuTimes(11.0, 5.0, None, 100.0)
    assert "does not count" in str(cpu_split.values(SplitCpuTimes(0, 0, None, 0), mac, 1.0)["cpu_iowait"])
    linux = module(user=10.0, nice=1.0, system=5.0, idle=70.0, iowait=4.0, irq=3.0, softirq=2.0, steal=5.0, guest=6.0)
    assert cpu_split.read_psutil(linux) == SplitCpuTimes(11.0, 10.0, 4.0, 100.0)


@given(st.binary() | st.text("cpu 0123456789\n").map(str.encode))
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert cpu_split.parse(text).total >= 0
