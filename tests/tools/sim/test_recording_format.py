"""Checks that written recordings can be read again, and that errors state the number of the invalid line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.model.snapshot import Reading
from lbdns_shared.errors import ConfigError
from lbdns_tools.sim.recording_format import (
    MAX_LINE,
    RecordedAnswers,
    RecordedEvent,
    RecordedReport,
    Recording,
    RecordingHeader,
    event_line,
    header_line,
    parse_recording,
    read_recording,
)

HEADER = RecordingHeader("web", "hobbit", ("a", "b"), {"best": "best"}, 1700000000.5)
FIRST = header_line(HEADER).encode()

numbers = st.floats(-1e15, 1e15).map(lambda x: round(x, 3))
readings = st.builds(
    Reading,
    received=st.just(0.0),
    interval=st.floats(0.01, 100),
    score=st.integers(0, 10**15),
    metrics=st.dictionaries(st.text(), numbers, max_size=4),
    alarm=st.text(),
    gone=st.booleans(),
)
counts = st.tuples(st.integers(0, 10**9), st.integers(0, 10**9))


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    times = sorted(draw(st.lists(st.integers(-10_000, 10_000_000), max_size=8)))
    events: list[RecordedEvent] = []
    for time in (value / 1000 for value in times):
        if draw(st.booleans()):
            events.append(RecordedAnswers(time, draw(counts)))
        else:
            read = draw(readings)
            reading = Reading(time, read.interval, read.score, read.metrics, read.alarm, read.gone)
            events.append(RecordedReport(draw(st.sampled_from(HEADER.members)), reading))
    return Recording(HEADER, tuple(events))


def lines_of(recording: Recording) -> list[bytes]:
    return [FIRST, *(event_line(event, recording.members).encode() for event in recording.events)]


def complaint(lines: list[bytes]) -> str:
    try:
        parse_recording(lines, "x")
    except ConfigError as error:
        return str(error)
    return "nothing"


@settings(deadline=None)
@given(recordings())
def test_what_is_written_is_read(recording: Recording) -> None:
    assert parse_recording(lines_of(recording), "x") == recording


@settings(deadline=None)
@given(recordings(), st.data())
def test_a_last_line_cut_off_anywhere_costs_that_line_only(recording: Recording, data: st.DataObject) -> None:
    lines = lines_of(recording)
    if len(lines) == 1:
        return
    cut = lines[-1][: data.draw(st.integers(1, len(lines[-1]) - 2))]
    assert parse_recording([*lines[:-1], cut], "x").events == recording.events[:-1]


@settings(deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"") + b"\n"), st.just(FIRST))))
def test_only_a_config_error_comes_of_anything(lines: list[bytes]) -> None:
    assert complaint(lines).startswith(("x:", "nothing"))


keys = st.sampled_from(["t", "report", "answers", "metrics", "interval", "score", "a", "alarm"])
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
anything = st.recursive(leaves, lambda v: st.lists(v, max_size=3) | st.dictionaries(keys, v, max_size=6), max_leaves=8)


@settings(deadline=None)
@given(anything)
def test_only_a_config_error_comes_of_any_json(value: object) -> None:
    assert complaint([FIRST, json.dumps(value).encode() + b"\n"]).startswith(("x:2:", "nothing"))


GOOD = '{"t":1,"report":"a","interval":1,"score":5,"metrics":{}}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{}", "must contain a report or answers"),
        ("[]", "must be a JSON object"),
        ("{", "must be a JSON object"),
        (GOOD.replace('"a"', '"c"'), "there is no member named 'c'"),
        (GOOD.replace('"t":1,', ""), "t is missing"),
        (GOOD.replace('"t":1', '"t":true'), "t is True, but must be a finite number"),
        (GOOD.replace('"t":1', '"t":1e999'), "must be a finite number"),
        (GOOD.replace('"t":1', '"t":NaN'), "must be a JSON object"),
        (GOOD.replace('"t":1', '"t":-5'), "the time t must not decrease, but -5 follows 0"),
        (GOOD.replace('"interval":1', '"interval":0'), "interval must be greater than 0, not 0"),
        (GOOD.replace('"score":5', '"score":5.5'), "score is 5.5, but must be of type int"),
        (GOOD.replace("{}", '{"x":"y"}'), "x is 'y', but must be a finite number"),
        (GOOD.replace('"score"', '"scor"'), "unknown key 'scor'. Perhaps you meant 'score'?"),
        ('{"t":1,"answers":{"c":1}}', "there is no member named 'c'"),
        ('{"t":1,"answers":{"a":-1}}', "a is -1, but must be a whole number"),
        ('{"t":1,"answers":{"a":1.5}}', "a is 1.5, but must be a whole number"),
        ("x" * (MAX_LINE + 1), "the line exceeds"),
    ],
)
def test_a_bad_line_is_named(line: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_recording([FIRST, b'{"t":0,"answers":{}}\n', line.encode() + b"\n"], "day.jsonl")
    assert str(error.value).startswith("day.jsonl:3: record: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (b"", "must be a JSON object"),
        (b"{}", "not an lbdns-sim recording"),
        (FIRST.replace(b'record":1', b'record":2'), "version 2: this lbdns-sim reads version 1"),
        (FIRST.replace(b'["a","b"]', b'["a","a"]'), "must not contain duplicate names"),
        (FIRST.replace(b'["a","b"]', b"[]"), "members must be a list of one or more names"),
        (FIRST.replace(b'"started"', b'"startet"'), "Perhaps you meant 'started'?"),
        (FIRST.replace(b'{"best":"best"}', b"7"), "policies must be an object"),
    ],
)
def test_a_bad_first_line_is_named(first: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_recording([first.rstrip(b"\n") + b"\n"], "x")
    assert message in str(error.value)
    assert str(error.value).startswith("x:1: record: ")


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    with pytest.raises(ConfigError, match="cannot read the file: No such file"):
        read_recording(path)
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match="is empty"):
        read_recording(path)
    path.write_bytes(FIRST + b'{"t":1,"answers":{"a":2}}\n{"t":2,"answers":{"b":3}}')
    recording = read_recording(path)
    assert recording.answered == (2, 3)
    assert recording.seconds == 2
