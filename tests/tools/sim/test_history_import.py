"""Tests of importing a history as a recording: reports and answers of each second, and errors about missing data."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.command_line.run_command import run
from lbdns.config.recording_sections import HistoryConfig
from lbdns.history.history_recorder import HistoryRecorder
from lbdns.model.snapshot import Reading
from lbdns_shared.errors import ConfigError
from lbdns_tools.sim.history_import import read_record
from lbdns_tools.sim.policy_replay import answered, replay
from lbdns_tools.sim.recording_format import RecordedAnswers, RecordedReport, RecordingHeader, event_line, header_line
from lbdns_tools.sim.sim_command import command
from tests.history.history_samples import BEGIN, fill, pool, sample


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "history.db"
    samples = [sample(s, pool(s, {"a": 50.0, "b": 20.0})) for s in range(60)]
    alarm = Reading(29.5, 1.0, 7, {"cpu_idle": 3.0}, alarm="disk full")
    samples[30] = sample(30, pool(30, {"a": 50.0, "b": 20.0}, readings=(None, alarm)))
    fill(HistoryRecorder(path, HistoryConfig()), samples)
    return path


def test_reports_and_answers_at_their_times(file: Path) -> None:
    found = read_record(file)
    assert found.header == RecordingHeader("web", "hobbit", ("a", "b"), {"best": "best"}, BEGIN)
    assert found.answered == (590, 1180)
    heard = [event for event in found.events if isinstance(event, RecordedReport) and event.member == "a"]
    assert [event.time for event in heard] == pytest.approx([s - 0.25 for s in range(60) if s != 30])
    assert heard[7].reading.interval == 1.0
    assert heard[7].reading.score == 50
    assert heard[7].reading.metrics == {
        "cpu_idle": 50.0, "requests_total": 1e9 + 700.0, "httpd_cpu_seconds": 1.75,
    }  # fmt: skip
    counts = [event for event in found.events if isinstance(event, RecordedAnswers)]
    assert [(event.time, event.counts) for event in counts] == [(float(s), (10, 20)) for s in range(1, 60)]
    (alarm,) = [event for event in found.events if isinstance(event, RecordedReport) and event.reading.alarm]
    assert (alarm.member, alarm.reading.alarm) == ("b", "disk full")
    assert alarm.time == pytest.approx(29.5)
    assert [event.time for event in found.events] == sorted(event.time for event in found.events)


def test_policies_can_be_tried_on_it(file: Path) -> None:
    found = read_record(Path(f"{file}:web"))
    assert replay(found, "round_robin", 3.0, 0.5).totals == pytest.approx((885, 885), abs=60)
    really = answered(found)
    assert really is not None
    assert really.totals == (590, 1180)


def test_a_part_of_it(file: Path) -> None:
    found = read_record(file, BEGIN + 10, BEGIN + 20)
    assert found.header.started == BEGIN + 10
    assert found.seconds == 10.0
    assert found.answered == (100, 200)


def test_members_that_come_and_go(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    before = [sample(s, pool(s, {"a": 50.0, "b": 20.0})) for s in range(10)]
    after = [sample(s, pool(s, {"b": 20.0, "c": 1.0}, answers=(20 * s, s))) for s in range(10, 20)]
    fill(HistoryRecorder(file, HistoryConfig()), [*before, *after])
    found = read_record(file)
    assert found.members == ("a", "b", "c")
    assert found.answered == (90, 380, 9)


def test_records_are_read_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    header = RecordingHeader("web", "hobbit", ("a",), {"best": "best"}, BEGIN)
    path.write_text(header_line(header) + event_line(RecordedAnswers(1.0, (5,)), ("a",)))
    assert read_record(path).answered == (5,)
    with pytest.raises(ConfigError, match="--begin and --end require a history"):
        read_record(path, BEGIN)


def test_only_means_are_left(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    fill(HistoryRecorder(file, HistoryConfig(keep_raw=0.0)), (sample(s) for s in range(60)))
    with pytest.raises(ConfigError) as error:
        read_record(file)
    assert "contains no per-second values for pool web" in str(error.value)
    assert "Averages are available from 2027-01-15T08:00:0" in str(error.value)


def test_a_span_before_everything(file: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"in this period; the earliest per-second values are from 2027-01-15T08:00:00Z$"
    ):
        read_record(file, 1000.0, 2000.0)


def test_the_command_line(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    arguments = ["--policy", "best,round_robin", "--seeds", "1", "--processes", "1", "--json"]
    status = run(command, "lbdns-sim", ["--replay", f"{file}:web", "--begin", str(BEGIN + 30), *arguments])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    assert '"round_robin"' in captured.out
    for wrong, complaint in (
        (["--replay", f"{file}:wet"], "Perhaps you meant 'web'?"),
        (["--servers", "T3", "--begin", "-1h"], "--begin requires --replay"),
        (["--replay", str(file), "--begin", "soon"], "is not a valid time"),
    ):
        assert run(command, "lbdns-sim", wrong) == 2
        assert complaint in capsys.readouterr().err
