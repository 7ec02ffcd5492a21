from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.metrics import load_averages
from tests.agent.fixtures import host_with_kernel


@pytest.mark.parametrize(
    ("kernel", "loads"),
    [
        ("2.6.32", (0.42, 0.31, 0.27)),
        ("3.10", (5.12, 4.8, 3.99)),
        ("4.19", (1.07, 0.98, 0.71)),
        ("5.10", (0.0, 0.0, 0.0)),
        ("6.1", (16.9, 12.04, 8.31)),
        ("6.18", (1.48, 1.82, 2.4)),
    ],
)
def test_read(kernel: str, loads: tuple[float, float, float]) -> None:
    found = load_averages.SENSOR.values(None, load_averages.read(host_with_kernel(kernel)), 0.0)
    assert found == {"load1": loads[0], "load5": loads[1], "load15": loads[2]}


@pytest.mark.parametrize("text", [b"", b"0.42 0.31", b"0.42 0.31 x"])
def test_three_numbers_are_required(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"three load averages|could not convert"):
        load_averages.parse(text)


@given(st.binary())
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert len(load_averages.parse(text)) == 3
