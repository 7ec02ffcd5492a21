"""Tests of trace files: columns, errors with line numbers, and the built-in trace of a day."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_shared.errors import ConfigError
from lbdns_tools.scaler.replay.demand_trace import DemandTrace
from lbdns_tools.scaler.replay.trace_file import csv_lines, read_demand_trace
from lbdns_tools.scaler.replay.trace_generator import DAY_REQUESTS, generate_trace


def trace(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "day.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "time_s,requests_per_s\n0,5\n60,7.5\n",
        "# a day\n\nrequests_per_s;time_s\n5;0\n7.5;60\n",
        "host, time_s ,requests_per_s\na,0,5\nb,60,7.5\n",
        "\ufefftime_s\trequests_per_s\r\n0\t5e0\r\n60\t7.5\r\n",
    ],
)
def test_columns(text: str, tmp_path: Path) -> None:
    assert read_demand_trace(trace(tmp_path, text)) == DemandTrace((0.0, 60.0), (5.0, 7.5), 120.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "day.csv: the file contains no rates; write the columns time_s and requests_per_s"),
        ("time,requests_per_s\n0,1\n1,1\n", "day.csv:1: the header must contain the columns time_s and requests_per_s"),
        ("time,requests_per_s\n0,1\n1,1\n", "time_s is missing. Perhaps you meant 'time'?"),
        ("0,1\n1,1\n", "day.csv:1: the header must contain the columns"),
        ("time_s,requests_per_s\n", "the trace must have at least two rows below the header, not 0"),
        ("time_s,requests_per_s\n0,1\n", "at least two rows below the header, not 1"),
        ("time_s,requests_per_s\n0,1\nx,1\n", "day.csv:3: time_s: must be a number of seconds of at least 0, not 'x'"),
        ("time_s,requests_per_s\n0,1\n-1,1\n", "day.csv:3: time_s: must be a number of seconds of at least 0"),
        (
            "time_s,requests_per_s\n0,1\n\n0,1\n",
            "day.csv:4: time_s: must be above 0, the time in the row before, not 0",
        ),
        ("time_s,requests_per_s\n0,1\n1\n", "day.csv:3: requests_per_s: must be a number from 0 to 1e+06, not ''"),
        ("time_s,requests_per_s\n0,nan\n1,-2\n", "day.csv:2: requests_per_s: must be a number from 0 to 1e+06"),
        ("time_s,requests_per_s\n0,nan\n1,-2\n", "day.csv:3: requests_per_s: must be a number from 0 to 1e+06"),
        ("time_s,requests_per_s\n" + "x,y\n" * 40, "... and 70 more"),
        ('time_s,requests_per_s\n"0,1\n', "not valid CSV"),
    ],
)
def test_errors_say_where(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        read_demand_trace(trace(tmp_path, text))
    assert message in str(error.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_demand_trace(tmp_path / "none.csv")


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_text_is_a_trace_or_an_error(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "day.csv"
        path.write_text("time_s,requests_per_s\n" + text, encoding="utf-8")
        try:
            found = read_demand_trace(path)
        except ConfigError as error:
            named = str(error)
        else:
            named = str(path)
            assert len(found.times) == len(found.rates) >= 2
        assert str(path) in named


def test_what_is_written_is_read(tmp_path: Path) -> None:
    day = generate_trace(1, 5)
    lines = list(csv_lines(day, "five"))
    assert lines[:2] == ["# five", "time_s,requests_per_s"]
    assert read_demand_trace(trace(tmp_path, "\n".join(lines))) == day
    assert next(csv_lines(day)) == "time_s,requests_per_s"


def test_the_built_in_day_is_that_of_the_study() -> None:
    """35 to 600 requests/s, and 22.2 million requests; the generator makes the same trace."""
    day = read_demand_trace(Path("one-day"))
    assert (min(day.rates), max(day.rates)) == (35, 600)
    assert day.requests == pytest.approx(DAY_REQUESTS, rel=0.001)
    assert (day.begin, day.end, len(day.times)) == (0, 86_400, 1440)
    assert day == generate_trace(1, 2012)
