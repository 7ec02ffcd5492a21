"""Tests of ``lbdns history``: the output for a recorded file, and the error if no file exists."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from lbdns.command_line.run_command import run
from lbdns.commands.history import history
from lbdns.config.recording_sections import HistoryConfig
from lbdns.events.event_log import LoggedEvent
from lbdns.history.history_recorder import HistoryRecorder
from tests.history.history_samples import BEGIN, fill, pool, sample

SPAN = ("--from", str(BEGIN), "--to", str(BEGIN + 59))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "history.db"
    recorder = HistoryRecorder(path, HistoryConfig())
    recorder.add_event(LoggedEvent(1, BEGIN + 5, "state", "warning", "gandalf: silent\x1b[2J", "web", "gandalf"))
    recorder.add_event(LoggedEvent(2, BEGIN + 6, "reload", "info", "in force"))
    fill(recorder, (sample(s, pool(s, {"gandalf": float(s), "frodo": 20.0})) for s in range(60)))
    return path


def call(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    status = run(history, "lbdns history", list(map(str, arguments)))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_table(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    status, out, err = call(capsys, "--file", file, "--metric", "cpu_idle", *SPAN)
    assert (status, err) == (0, "")
    assert "cpu_idle of pool web, %" in out
    assert "2027-01-15T08:00:00Z to 2027-01-15T08:00:59Z" in out
    (gandalf,) = [line for line in out.splitlines() if line.startswith("gandalf")]
    assert gandalf.split()[-4:] == ["0", "29.5", "59", "59"]
    assert "▁" in gandalf
    assert "█" in gandalf
    assert all(len(line) <= 80 for line in out.splitlines())


def test_answers_are_what_is_shown_first(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    _, out, _ = call(capsys, "--file", file, *SPAN)
    assert "answers of pool web, answers/s" in out
    (frodo,) = [line for line in out.splitlines() if line.startswith("frodo")]
    assert frodo.split()[-4:] == ["20"] * 4


def test_one_peak_does_not_flatten_all_other_bars(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    values = [1000.0 if s in (40, 41) else 1.0 + s % 16 for s in range(64)]
    samples = (sample(s, pool(s, {"gandalf": value, "frodo": 8.0})) for s, value in enumerate(values))
    fill(HistoryRecorder(path, HistoryConfig()), samples)
    until = ("--from", str(BEGIN), "--to", str(BEGIN + 63))
    _, out, _ = call(capsys, "--file", path, "--metric", "cpu_idle", *until)
    (gandalf,) = [line for line in out.splitlines() if line.startswith("gandalf")]
    assert gandalf.count("↑") == 1
    assert len(set(gandalf) & set("▁▂▃▄▅▆▇█")) >= 6
    assert "0 to 15.5, ↑ above" in out
    assert gandalf.split()[-2] == "1000", "the figures include the peak"
    _, out, _ = call(capsys, "--file", path, "--metric", "cpu_idle", "--member", "frodo", *until)
    assert "0 to 8 " in out
    assert "↑" not in out


def test_the_resolution_is_stated(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    _, out, _ = call(capsys, "--file", file, "--metric", "cpu_idle", *SPAN)
    assert "resolution: 1 s per value (recorded every second), 1.88 s per bar" in out.splitlines()
    _, out, _ = call(capsys, "--file", file, "--metric", "cpu_idle", *SPAN, "--points", "6")
    assert "resolution: 10 s per value (recorded every second), 10 s per bar" in out.splitlines()


def test_csv(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    status, out, _ = call(capsys, "--file", file, "--metric", "answers", *SPAN, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 0
    assert len(rows) == 60
    assert rows[0] == {"time": f"{BEGIN:.3f}", "gandalf": "", "frodo": ""}  # nobody knows since when
    assert rows[7] == {"time": f"{BEGIN + 7:.3f}", "gandalf": "10", "frodo": "20"}


def test_json_of_one_member(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    _, out, _ = call(
        capsys, "--file", file, "--metric", "cpu_idle", "--member", "gandalf", *SPAN, "--points", "6", "--json"
    )
    found = json.loads(out)
    assert (found["pool"], found["metric"], found["tier"], found["step_s"]) == ("web", "cpu_idle", "raw", 10.0)
    assert found["times"] == [BEGIN + 10 * i for i in range(6)]
    assert found["series"] == {"gandalf": [4.5, 14.5, 24.5, 34.5, 44.5, 54.5]}


def test_of_the_server(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    _, out, _ = call(capsys, "--file", file, "--metric", "types", *SPAN, "--json")
    assert {name: values[-1] for name, values in json.loads(out)["series"].items()} == {"A": 30.0, "AAAA": 5.0}


def test_events(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    _, out, _ = call(capsys, "--file", file, "--events", *SPAN)
    assert out.splitlines() == [
        "2027-01-15T08:00:05Z warning state     gandalf: silent?[2J",
        "2027-01-15T08:00:06Z info    reload    in force",
    ]
    _, out, _ = call(capsys, "--file", file, "--events", *SPAN, "--json")
    assert [event["kind"] for event in json.loads(out)["events"]] == ["state", "reload"]
    _, out, _ = call(capsys, "--file", file, "--events", *SPAN, "--csv", "--pool", "web")
    assert [row["member"] for row in csv.DictReader(io.StringIO(out))] == ["gandalf"]


def test_the_file_is_that_of_the_configuration(capsys: pytest.CaptureFixture[str], file: Path, tmp_path: Path) -> None:
    (tmp_path / "z.zone").write_text("$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n")
    config = tmp_path / "lbdns.toml"
    config.write_text('[server]\nstate_dir = "."\n[[zone]]\nname = "hobbit"\nfile = "z.zone"\n')
    status, out, err = call(capsys, "-c", config, *SPAN)
    assert (status, err) == (0, "")
    assert "pool web" in out


def test_a_time_of_which_nothing_is_known(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    status, out, _ = call(capsys, "--file", file, "--from", "1000", "--to", "2000")
    assert status == 0
    assert "no data in this time range" in out
    _, out, _ = call(capsys, "--file", file, "--from", "1000", "--to", "2000", "--events")
    assert "no events in this time range" in out


def test_a_member_that_has_no_such_metric(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fill(
        HistoryRecorder(tmp_path / "history.db", HistoryConfig()),
        (sample(s, pool(s, {"a": 1.0}, readings=(None,)), pool(s, {"b": 1.0}, name="other")) for s in range(9)),
    )
    status, _, err = call(capsys, "--file", tmp_path / "history.db", "--metric", "score", *SPAN)
    assert (status, err) == (2, "--pool: choose one of: other, web\n")
    _, out, _ = call(
        capsys, "--file", tmp_path / "history.db", "--metric", "age_s", "--pool", "other", "--member", "a", *SPAN
    )
    assert "no data" in out


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["--metric", "cpu_idel"], 2, "Perhaps you meant 'cpu_idle'?"),
        (["--pool", "wev"], 2, "Perhaps you meant 'web'?"),
        (["--member", "gandolf"], 2, "Perhaps you meant 'gandalf'?"),
        (["--from", "yesterday"], 2, "is not a valid time; write Unix seconds"),
        (["--last", "long"], 2, "is not a valid duration"),
        (["--from", "-1h", "--last", "1h"], 2, "cannot be used together"),
        (["--csv", "--json"], 2, "cannot be used together"),
        (["--from", "2000", "--to", "1000"], 2, "--from must be before --to"),
        (["--points", "0"], 2, "--points"),
    ],
)
def test_bad_arguments(
    capsys: pytest.CaptureFixture[str], file: Path, arguments: list[str], status: int, complaint: str
) -> None:
    found, out, err = call(capsys, "--file", file, *arguments)
    assert (found, out) == (status, "")
    assert complaint in err


def test_no_history(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, _, err = call(capsys, "--file", tmp_path / "none.db")
    assert (status, err.startswith(f"{tmp_path}/none.db: there is no history; ")) == (1, True)
    (tmp_path / "text").write_text("what a day it was. " * 100)
    status, _, err = call(capsys, "--file", tmp_path / "text")
    assert (status, "cannot read the history" in err) == (1, True)


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "--help")
    assert status == 0
    assert "Examples:" in out
    assert "lbdns history --events --last 7d" in out
