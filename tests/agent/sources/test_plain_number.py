"""Numbers in the output of commands and in files."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.sources.plain_number import PlainNumber


@pytest.mark.parametrize(
    ("text", "number"),
    [(b"3", 3.0), (b" 3.5\n", 3.5), (b"-2", -2.0), (b"+1e3", 1000.0), (b".5", 0.5), (b"5.\r\n", 5.0), (b"1E-2", 0.01)],
)
def test_numbers(text: bytes, number: float) -> None:
    assert PlainNumber().find(text) == number


@pytest.mark.parametrize(
    "text", [b"", b"3 4", b"3 tasks", b"nan", b"inf", b"1e999", b"1_000", b"0x10", b"\xff", "٣".encode()]
)
def test_what_is_no_number(text: bytes) -> None:
    with pytest.raises(ValueError, match="is not a finite number"):
        PlainNumber().find(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_is_read_back(number: float) -> None:
    assert PlainNumber().find(repr(number).encode()) == number


@given(st.binary(max_size=30))
def test_anything_is_a_finite_number_or_a_value_error(text: bytes) -> None:
    try:
        assert math.isfinite(PlainNumber().find(text))
    except ValueError:
        return
