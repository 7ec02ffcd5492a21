from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.metrics import mem_available
from lbdns_agent.metrics.mem_available import HostMemory
from tests.agent.fixtures import host_with_kernel, proc_file


@pytest.mark.parametrize(
    ("kernel", "total", "available"),
    [
        ("2.6.32", 2054820, 167492 + 201300 + 713140),  # no MemAvailable before Linux 3.14
        ("3.10", 8010408, 240856 + 120344 + 3902112),
        ("4.19", 4039520, 3150826),
        ("5.10", 2014544, 1208726),
        ("6.1", 32839500, 28900760),
        ("6.18", 24684084, 24003032),
    ],
)
def test_parse(kernel: str, total: int, available: int) -> None:
    assert mem_available.parse(proc_file(kernel, "meminfo")) == HostMemory(total * 1024, available * 1024)
    expected = {"mem_available": pytest.approx(100 * available / total)}
    host = host_with_kernel(kernel)
    assert mem_available.SENSOR.values(None, mem_available.read(host), 0.0) == expected
    assert mem_available.quick_read(host) == expected


@given(st.binary() | st.text("MemTotalFreAvib: 0123456789k\n").map(str.encode))
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert mem_available.parse(text).total > 0
