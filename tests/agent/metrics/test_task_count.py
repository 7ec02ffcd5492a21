from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.metrics import task_count
from tests.agent.fixtures import host_with_kernel

TASKS = {"2.6.32": 214, "3.10": 512, "4.19": 180, "5.10": 143, "6.1": 1204, "6.18": 173}


@pytest.mark.parametrize(("kernel", "tasks"), TASKS.items())
def test_read(kernel: str, tasks: int) -> None:
    found = task_count.SENSOR.values(None, task_count.read(host_with_kernel(kernel)), 0.0)
    assert found == {"task_count": tasks}


@given(st.binary() | st.text("0123456789/. ").map(str.encode))
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(task_count.parse(text), int)
