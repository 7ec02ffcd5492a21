"""Arrival rates from CSV."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_shared.errors import ConfigError
from lbdns_tools.load.rate_trace import read_trace, scale
from lbdns_tools.load.request_mix import MAX_ERRORS


def trace(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "day.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "column", "rates"),
    [
        ("1\n2.5\n3e1\n", "", (1, 2.5, 30)),
        ("rate\n1\n2\n", "", (1, 2)),
        ("# a day\n\nrate\n1\n\n2\n", "rate", (1, 2)),
        ("time,rate\n00:00,5\n00:01,6\n", "rate", (5, 6)),
        ("time,rate\n00:00,5\n00:01,6\n", "2", (5, 6)),
        ("00:00;5\n00:01;6\n", "2", (5, 6)),
        ("a\tb\n5\t6\n", "a", (5,)),
        ('time,"requests, all"\n0,5\n', "requests, all", (5,)),
        ("0,5\n1,6\n", "1", (0, 1)),
        ("2,1\n5,6\n", "1", (2, 5)),  # the first line is no header: its cells are numbers
        ("\ufeffrate\r\n1\r\n", "rate", (1,)),
    ],
)
def test_columns(tmp_path: Path, text: str, column: str, rates: tuple[float, ...]) -> None:
    assert read_trace(trace(tmp_path, text), column) == rates


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", "", "day.csv: the file contains no rates"),
        ("rate\n", "", "day.csv: the file contains no rates"),
        ("time,rate\n0,5\n", "", "specify a column by its name or its number (1 to 2): time, rate"),
        ("0,5\n", "", "specify a column by its name or its number"),
        ("time,rate\n0,5\n", "rat", "there is no column 'rat'. Perhaps you meant 'rate'?"),
        ("0,5\n", "rate", "there is no column 'rate'; the file has no header"),
        ("time,rate\n0,5\n", "3", "there is no column 3; column numbers range from 1 to 2"),
        ("time,rate\n0,5\n", "0", "there is no column 0"),
        ("rate\n1\nx\n-2\nnan\n", "", "day.csv:3: column 1: must be a number of at least 0, not 'x'"),
        ("rate\n1\nx\n-2\nnan\n", "", "day.csv:4: column 1: must be a number of at least 0, not '-2'"),
        ("rate\n1\nx\n-2\nnan\n", "", "day.csv:5: column 1: must be a number of at least 0, not 'nan'"),
        ("-1\n2\n", "", "day.csv:1: column 1: must be a number of at least 0, not '-1'"),
        ("time,rate\n0,5\n1\n", "rate", "day.csv:3: column rate: must be a number of at least 0, not ''"),
        ("0\n0\n", "", "the highest rate must be above 0"),
        ("1e9\n", "", "to scale the trace"),
        ("x\n" * 40, "", f"and {39 - MAX_ERRORS} more"),
        ('a,b\n"x,1\n', "a", "not valid CSV"),
    ],
)
def test_errors_say_where(tmp_path: Path, text: str, column: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_trace(trace(tmp_path, text), column)
    assert message in str(error.value)


def test_scaled(tmp_path: Path) -> None:
    path = trace(tmp_path, "bytes\n1e9\n3e9\n2e9\n")
    assert read_trace(path, span=(10.0, 110.0)) == (10, 110, 60)
    assert scale((5.0, 5.0), 1.0, 20.0) == (20, 20)
    with pytest.raises(ConfigError, match="No such file"):
        read_trace(tmp_path / "none.csv")


@given(
    st.lists(st.floats(0, 1e12, allow_subnormal=False), min_size=1, max_size=20),
    st.floats(0, 1e3, allow_subnormal=False),
    st.floats(0, 1e3, allow_subnormal=False),
)
def test_scaling_keeps_the_order_and_meets_both_ends(rates: list[float], least: float, more: float) -> None:
    most = least + more
    scaled = scale(rates, least, most)
    assert max(scaled) == pytest.approx(most)
    if min(rates) < max(rates):
        assert min(scaled) == pytest.approx(least)
    ordered = [rate for _, rate in sorted(zip(rates, scaled, strict=True))]
    assert all(after >= before - 1e-9 * most for before, after in pairwise(ordered))
