"""Tests of 'lbdns-scaler replay': its output as a table, as JSON and as a plot, and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lbdns.command_line.run_command import run
from lbdns_tools.scaler.policies.revenue_model import Prices
from lbdns_tools.scaler.replay.trace_file import csv_lines
from lbdns_tools.scaler.replay.trace_generator import generate_trace
from lbdns_tools.scaler.scaler_command import command

ROWS = (
    "mean response ms", "99 % response ms", "mean CPU %", "instance hours", "cost $", "requests lost", "revenue $",
)  # fmt: skip


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(command, "lbdns-scaler", ["replay", *arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    status, out, err = call(capsys, *arguments, "--json")
    assert status == 0, err
    return dict(json.loads(out))


@pytest.fixture
def short(tmp_path: Path) -> str:
    """Return the path of a trace of half an hour."""
    path = tmp_path / "short.csv"
    path.write_text("time_s,requests_per_s\n" + "".join(f"{60 * at},{100 + 10 * at}\n" for at in range(30)))
    return str(path)


def test_the_day_of_the_study(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "one-day", "--policy", "cpu,revenue,fixed")
    assert [policy["policy"] for policy in found["policies"]] == ["cpu", "revenue", "fixed"]
    for policy in found["policies"]:
        assert policy["requests"] == pytest.approx(22.2e6, rel=0.001)
        assert policy["cost"] == pytest.approx(policy["instance_hours"] * 0.17, abs=0.01)
        revenue = Prices().revenue(policy["requests"], policy["lost"], policy["instance_hours"])
        assert policy["revenue"] == pytest.approx(revenue, abs=0.01)
    always = found["policies"][2]
    assert (always["instance_hours"], always["cost"]) == (480, 81.60), "as in table 6.2"
    assert found["settings"]["capacity"] == pytest.approx(28.571, abs=0.001)
    assert found["trace"]["requests"] == pytest.approx(22.2e6, rel=0.001)


def test_the_table_has_the_layout_of_table_6_2(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "one-day", "--policy", "revenue,fixed")
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "1d with 22.20 million requests; a server serves 28.57 requests/s"
    assert lines[1].split() == ["revenue", "fixed"]
    rows = [line.strip() for line in lines if line.strip().startswith(ROWS)]
    assert [next(name for name in ROWS if row.startswith(name)) for row in rows] == list(ROWS)
    assert rows[3].split()[-1] == "480"
    assert "Cost and revenue follow the study's formulas" in out
    assert "A replay does not reproduce the study's table 6.2" in out


def test_all_leaves_out_policies_that_need_settings(
    short: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [policy["policy"] for policy in as_json(capsys, short)["policies"]]
    assert names == ["cpu", "fixed", "forecast", "queue", "reactive", "revenue", "target"]
    (tmp_path / "scaler.toml").write_text('[policy.schedule]\nentries = ["daily 00:00-24:00 7"]\n[provider]\nx = 1\n')
    found = as_json(capsys, short, "-c", str(tmp_path / "scaler.toml"))["policies"]
    assert next(policy for policy in found if policy["policy"] == "schedule")["most_servers"] == 7


def test_an_access_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = '192.0.2.7 - - [10/Oct/2026:13:{:02}:36 +0200] "GET / HTTP/1.1" 200 2326\n'
    (tmp_path / "access.log").write_text("".join(line.format(minute) for minute in range(10)))
    found = as_json(capsys, str(tmp_path / "access.log"), "--access-log", "--policy", "queue")
    assert found["policies"][0]["requests"] == 10
    assert found["trace"]["end"] - found["trace"]["begin"] == 600


def test_a_warm_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "days.csv"
    path.write_text("\n".join(csv_lines(generate_trace(2, 3))))
    found = as_json(capsys, str(path), "--policy", "fixed", "--warm-up", "1d", "--maximum", "30")["policies"][0]
    assert found["instance_hours"] == 720
    assert found["requests"] == pytest.approx(22.2e6 * 1.003, rel=0.001)
    _, out, _ = call(capsys, str(path), "--policy", "fixed", "--warm-up", "1d")
    assert out.startswith("1d with 22.27 million requests, counted after 1d;")


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_plot(ending: str, short: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"day.{ending}"
    status, out, err = call(capsys, short, "--plot", str(path))
    assert status == 0, err
    assert out.splitlines()[-1] == f"plot: {path}"
    assert path.stat().st_size > 5000
    if ending == "svg":
        text = path.read_text()
        assert all(f">{word}</text>" in text for word in ("requests/s", "servers in service", "forecast", "target"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv"], "none.csv: cannot read the file: No such file or directory"),
        (["one-day", "--policy", "cpuu"], "unknown policy 'cpuu'. Perhaps you meant 'cpu'?"),
        (["one-day", "--policy", "schedule"], "--policy schedule: the policy requires settings"),
        (["one-day", "--warm-up", "1d"], "--warm-up: the warm-up (1d) must be shorter than the trace (1d)"),
        (["one-day", "--warm-up", "soon"], "'soon' is not a valid duration"),
        (["one-day", "--minimum", "30"], "--minimum 30 must not exceed --maximum 20"),
        (["one-day", "--cores", "0"], "0.0 is not in the range x>0"),
        (["one-day", "--plot", "day.txt"], "--plot: day.txt: the file name must end in one of .png, .svg, .pdf"),
        (["one-day", "-c", "none.toml"], "none.toml: cannot read the file"),
        ([], "Missing argument 'TRACE'"),
    ],
)
def test_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, *arguments)
    assert (status, out) == (2, "")
    assert message in err


def test_a_trace_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "day.csv").write_text("time_s,requests_per_s\n0,0\n60,0\n")
    status, _, err = call(capsys, str(tmp_path / "day.csv"))
    assert status == 2
    assert "day.csv: all rates are 0" in err


def test_wrong_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "scaler.toml").write_text("[policy.queue]\nbeta = -1\n")
    status, _, err = call(capsys, "one-day", "-c", str(tmp_path / "scaler.toml"))
    assert status == 2
    assert "scaler.toml:2: [policy.queue] beta: must be a number from 0 to 50, not -1" in err


def test_times_that_are_no_unix_times_begin_on_a_monday(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "scaler.toml").write_text('[policy.schedule]\nentries = ["mon 01:00-02:00 9"]\n')
    for begin, most in ((0, 1), (3600, 9), (90_000, 9), (1_704_070_800, 9), (1_704_157_200, 1)):
        path = tmp_path / "day.csv"
        path.write_text("time_s,requests_per_s\n" + "".join(f"{begin + 60 * at},1\n" for at in range(20)))
        arguments = [str(path), "--policy", "schedule", "-c", str(tmp_path / "scaler.toml")]
        assert as_json(capsys, *arguments)["policies"][0]["most_servers"] == most, begin
