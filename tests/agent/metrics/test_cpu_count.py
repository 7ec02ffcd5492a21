from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.metrics import cpu_count
from tests.agent.fixtures import host_with_kernel, proc_file


@pytest.mark.parametrize(
    ("kernel", "count"), [("2.6.32", 2), ("3.10", 4), ("4.19", 1), ("5.10", 2), ("6.1", 16), ("6.18", 2)]
)
def test_parse(kernel: str, count: int) -> None:
    assert cpu_count.parse(proc_file(kernel, "stat")) == count
    assert cpu_count.SENSOR.values(None, cpu_count.read(host_with_kernel(kernel)), 0.0) == {"cpu_count": count}


@given(st.binary())
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert cpu_count.parse(text) > 0
