from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.metrics import blocked_tasks
from tests.agent.fixtures import host_with_kernel, proc_file

BLOCKED = {"2.6.32": 1, "3.10": 0, "4.19": 2, "5.10": 0, "6.1": 4, "6.18": 0}


@pytest.mark.parametrize(("kernel", "blocked"), BLOCKED.items())
def test_parse(kernel: str, blocked: int) -> None:
    assert blocked_tasks.parse(proc_file(kernel, "stat")) == blocked
    read = blocked_tasks.read(host_with_kernel(kernel))
    assert blocked_tasks.SENSOR.values(None, read, 0.0) == {"blocked_tasks": blocked}


@given(st.binary() | st.text("procs_blocked \n0123456789x").map(str.encode))
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(blocked_tasks.parse(text), int)
