from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.metrics import load1
from tests.agent.fixtures import host_with_kernel


@pytest.mark.parametrize(
    ("kernel", "load"), [("2.6.32", 0.42), ("3.10", 5.12), ("4.19", 1.07), ("5.10", 0.0), ("6.1", 16.9), ("6.18", 1.48)]
)
def test_read(kernel: str, load: float) -> None:
    assert load1.SENSOR.values(None, load1.read(host_with_kernel(kernel)), 0.0) == {"load1": load}


@given(st.binary())
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(load1.parse(text), float)
