"""Reads and writes recordings of lbdns-sim (format version 1), which contain a pool's reports and answers as JSON
lines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from lbdns.model.snapshot import Reading
from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError

VERSION: Final = 1
MAX_LINE: Final = 2**20  # bytes; a report has at most 1200, the answers of a thousand members have about 50,000


@dataclass(frozen=True, slots=True)
class RecordingHeader:
    """The first line of a recording: the pool, its members in order, and the start as Unix time."""

    pool: str
    zone: str
    members: tuple[str, ...]  # relative to the zone
    policies: Mapping[str, str]  # owner name -> policy of the pool's names
    started: float


@dataclass(frozen=True, slots=True)
class RecordedReport:
    """A member's report, received ``reading.received`` seconds after the start of the recording."""

    member: str
    reading: Reading

    @property
    def time(self) -> float:
        return self.reading.received


@dataclass(frozen=True, slots=True)
class RecordedAnswers:
    """The numbers of answers per member since the previous ``RecordedAnswers`` or the start of the recording."""

    time: float
    counts: tuple[int, ...]


RecordedEvent = RecordedReport | RecordedAnswers


@dataclass(frozen=True, slots=True)
class Recording:
    header: RecordingHeader
    events: tuple[RecordedEvent, ...]  # by time

    @property
    def members(self) -> tuple[str, ...]:
        return self.header.members

    @property
    def seconds(self) -> float:
        """The time from the start of the recording to the last event, in seconds."""
        return max(0.0, self.events[-1].time) if self.events else 0.0

    @property
    def answered(self) -> tuple[int, ...]:
        """The total number of answers per member."""
        counts = [event.counts for event in self.events if isinstance(event, RecordedAnswers)]
        return tuple(map(sum, zip(*counts, strict=True))) or (0,) * len(self.members)


def header_line(header: RecordingHeader) -> str:
    return _line({"lbdns_record": VERSION, **asdict(header)})


def event_line(event: RecordedEvent, members: Sequence[str]) -> str:
    if isinstance(event, RecordedAnswers):
        counts = {name: count for name, count in zip(members, event.counts, strict=True) if count}
        return _line({"t": round(event.time, 4), "answers": counts})
    reading = event.reading
    figures = {"interval": reading.interval, "score": reading.score, "metrics": dict(reading.metrics)}
    exceptions = {key: value for key, value in (("alarm", reading.alarm), ("gone", reading.gone)) if value}
    return _line({"t": round(event.time, 4), "report": event.member, **figures, **exceptions})


def _line(values: Mapping[str, Any]) -> str:
    return json.dumps(values, separators=(",", ":"), allow_nan=False) + "\n"


def read_recording(path: Path) -> Recording:
    """Read a recording from a file. If a line is invalid, raises ConfigError with the line number."""
    try:
        with path.open("rb") as file:
            return parse_recording(iter(lambda: file.readline(MAX_LINE + 1), b""), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the file: {error.strerror}") from None


def parse_recording(lines: Iterable[bytes], name: str) -> Recording:
    """Parse the lines of a recording, including the line endings.

    Raises ConfigError; error messages contain the file name ``name``. An incomplete last line is ignored, because the
    recorder may have been killed while writing it.
    """
    header: RecordingHeader | None = None
    events: list[RecordedEvent] = []
    before = -math.inf
    for number, line in enumerate(lines, 1):
        try:
            if len(line) > MAX_LINE:
                raise ValueError(f"the line exceeds {MAX_LINE} bytes; check that the file is an lbdns-sim recording")
            try:
                values = _object(line)
            except ValueError:
                if header is not None and not line.endswith(b"\n"):
                    break
                raise
            if header is None:
                header = _header(values)
                continue
            event = _event(values, header.members)
            if event.time < before:
                raise ValueError(f"the time t must not decrease, but {event.time:g} follows {before:g}")
            before = event.time
            events.append(event)
        except ValueError as error:
            raise ConfigError(f"{name}:{number}: record: {error}") from None
    if header is None:
        raise ConfigError(f"{name}: the file is empty; to create a recording, run 'lbdns-sim record URL FILE'")
    return Recording(header, tuple(events))


def _object(line: bytes) -> dict[str, Any]:
    try:
        values = json.loads(line.decode("utf-8"), parse_constant=int)  # ValueError for NaN and Infinity
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ValueError("the line must be a JSON object")
    return values


def _header(values: Mapping[str, Any]) -> RecordingHeader:
    if "lbdns_record" not in values:
        raise ValueError('not an lbdns-sim recording: the first line must begin with {"lbdns_record": 1')
    if type(values["lbdns_record"]) is not int or values["lbdns_record"] != VERSION:
        raise ValueError(f"unsupported version {values['lbdns_record']!r}: this lbdns-sim reads version {VERSION}")
    _check_keys(values, ("lbdns_record", "pool", "zone", "members", "policies", "started"))
    members, policies = values["members"], values["policies"]
    if not isinstance(members, list) or not members or not all(isinstance(name, str) and name for name in members):
        raise ValueError("members must be a list of one or more names")
    if len(set(members)) < len(members):
        raise ValueError("members must not contain duplicate names")
    if not isinstance(policies, dict) or not all(isinstance(policy, str) for policy in policies.values()):
        raise ValueError("policies must be an object that maps names to policies")
    pool, zone = _of_type(values, "pool", str), _of_type(values, "zone", str)
    return RecordingHeader(pool, zone, tuple(members), policies, _number(values, "started"))


def _event(values: Mapping[str, Any], members: Sequence[str]) -> RecordedEvent:
    if "report" in values:
        return _report(values, members)
    if "answers" in values:
        return _answers(values, members)
    raise ValueError("the line must contain a report or answers")


def _report(values: Mapping[str, Any], members: Sequence[str]) -> RecordedReport:
    _check_keys(values, ("t", "report", "interval", "score", "metrics"), ("alarm", "gone"))
    name = _of_type(values, "report", str)
    if name not in members:
        raise ValueError(f"report: there is no member named {name!r}{nearest(name, members)}")
    if (interval := _number(values, "interval")) <= 0:
        raise ValueError(f"interval must be greater than 0, not {interval:g}")
    metrics = _of_type(values, "metrics", dict)
    reading = Reading(
        received=_number(values, "t"),
        interval=interval,
        score=_of_type(values, "score", int),
        metrics={metric: _number(metrics, metric) for metric in metrics},
        alarm=_of_type(values, "alarm", str) if "alarm" in values else "",
        gone=_of_type(values, "gone", bool) if "gone" in values else False,
    )
    return RecordedReport(name, reading)


def _answers(values: Mapping[str, Any], members: Sequence[str]) -> RecordedAnswers:
    _check_keys(values, ("t", "answers"))
    answers = _of_type(values, "answers", dict)
    for name, count in answers.items():
        if name not in members:
            raise ValueError(f"answers: there is no member named {name!r}{nearest(name, members)}")
        if type(count) is not int or count < 0:
            raise ValueError(f"answers: {name} is {count!r}, but must be a whole number of at least 0")
    return RecordedAnswers(_number(values, "t"), tuple(answers.get(name, 0) for name in members))


def _check_keys(values: Mapping[str, Any], required: Sequence[str], optional: Sequence[str] = ()) -> None:
    for key in values:
        if key not in (*required, *optional):
            raise ValueError(f"unknown key {key!r}{nearest(key, (*required, *optional))}")
    for key in required:
        if key not in values:
            raise ValueError(f"{key} is missing")


def _of_type(values: Mapping[str, Any], key: str, kind: type) -> Any:
    if type(values[key]) is not kind:
        raise ValueError(f"{key} is {values[key]!r}, but must be of type {kind.__name__}")
    return values[key]


def _number(values: Mapping[str, Any], key: str) -> float:
    value = values[key]
    try:
        number = float(value) if type(value) in (int, float) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{key} is {value!r}, but must be a finite number")
    return number
