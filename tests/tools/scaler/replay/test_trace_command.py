"""Tests of 'lbdns-scaler trace': rows, the seed, and a trace that 'lbdns-scaler replay' reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.command_line.run_command import run
from lbdns_tools.scaler.replay import trace_file
from lbdns_tools.scaler.replay.trace_file import read_demand_trace
from lbdns_tools.scaler.replay.trace_generator import generate_trace
from lbdns_tools.scaler.scaler_command import command


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(command, "lbdns-scaler", ["trace", *arguments]) == 0
    return capsys.readouterr().out


def test_the_trace_is_that_of_the_seed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = printed(capsys, "--days", "2", "--seed", "7")
    assert out.startswith("# lbdns-scaler trace --days 2 --seed 7\ntime_s,requests_per_s\n0,")
    (tmp_path / "days.csv").write_text(out)
    assert read_demand_trace(tmp_path / "days.csv") == generate_trace(2, 7)
    assert printed(capsys, "--days", "2", "--seed", "7") == out != printed(capsys, "--days", "2", "--seed", "8")


def test_the_built_in_day(capsys: pytest.CaptureFixture[str]) -> None:
    built_in = Path(trace_file.__file__).parent / "traces" / "one_day.csv"
    assert printed(capsys, "--seed", "2012") == built_in.read_text()


@pytest.mark.parametrize("arguments", [["--days", "0"], ["--days", "x"], ["--seed", "-1"]])
def test_errors(arguments: list[str]) -> None:
    assert run(command, "lbdns-scaler", ["trace", *arguments]) == 2
