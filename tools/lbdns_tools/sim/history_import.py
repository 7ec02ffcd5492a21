"""Converts per-second data in the history of lbdns into a recording."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lbdns.history.history_reader import HistoryReader, RawMoment, RecordedPool
from lbdns.history.history_sample import OWN
from lbdns.model.snapshot import Reading
from lbdns.text.suggestions import nearest
from lbdns.text.times import format_time
from lbdns_shared.errors import ConfigError
from lbdns_tools.sim.recording_format import (
    RecordedAnswers,
    RecordedEvent,
    RecordedReport,
    Recording,
    RecordingHeader,
    read_recording,
)

SQLITE: Final = b"SQLite format 3\0"  # the first bytes of a database file


def read_record(what: Path, begin: float | None = None, end: float | None = None) -> Recording:
    """Read a recording, or the part of a history between two Unix times. Raises LbdnsError.

    ``what`` is FILE or, for a history with several pools, FILE:POOL.
    """
    before, colon, pool = str(what).rpartition(":")
    path, pool = (Path(before), pool) if colon and not what.exists() else (what, "")
    if _is_history(path):
        return _read_history(path, pool, 0.0 if begin is None else begin, 1e11 if end is None else end)
    if begin is not None or end is not None:
        raise ConfigError(f"--begin and --end require a history, but {path} is a recording")
    return read_recording(what)


def _is_history(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError:
        return False


def _read_history(path: Path, pool: str, begin: float, end: float) -> Recording:
    """Return a recording of a pool. Times are in seconds since the first second with values."""
    reader = HistoryReader(path)
    about = _pool(reader, pool)
    members: dict[str, None] = {}  # in order of appearance
    events: list[RecordedEvent] = []
    answers: list[tuple[float, Mapping[str, float]]] = []
    started: float | None = None
    for moment in reader.raw(about.name, begin, end):
        members.update(dict.fromkeys(moment.members))
        if started is None:
            started = moment.time
        else:  # answers of the first second precede the recording
            counts = zip(moment.members, moment.columns.get("answers", ()), strict=False)
            answers.append((moment.time - started, {name: count for name, count in counts if count > 0}))
        events += _reports(moment, moment.time - started)
    if started is None:
        raise ConfigError(_nothing(reader, about.name, begin, end))
    events += [RecordedAnswers(time, tuple(int(counts.get(m, 0)) for m in members)) for time, counts in answers]
    events.sort(key=lambda event: event.time)
    return Recording(RecordingHeader(about.name, about.zone, tuple(members), about.policies, started), tuple(events))


def _pool(reader: HistoryReader, pool: str) -> RecordedPool:
    known = {info.name: info for info in reader.pools()}
    if not pool and len(known) == 1:
        return next(iter(known.values()))
    if not pool and known:
        names = ", ".join(known)
        raise ConfigError(f"--replay: {reader.path}: specify a pool with FILE:POOL; the history contains {names}")
    if pool not in known:
        raise ConfigError(f"--replay: {reader.path}: the history contains no pool named {pool!r}{nearest(pool, known)}")
    return known[pool]


def _nothing(reader: HistoryReader, pool: str, begin: float, end: float) -> str:
    begins = reader.begins()
    what = f"--replay: {reader.path}: the history contains no per-second values for pool {pool}"
    if raw := begins.get("raw"):
        what += f" in this period; the earliest per-second values are from {format_time(raw)}"
    means = min((time for tier, time in begins.items() if tier != "raw"), default=math.inf)
    if means < end:
        what += f". Averages are available from {format_time(means)} on, but cannot be replayed; see [history] keep_raw"
    return what


def _reports(moment: RawMoment, time: float) -> Iterator[RecordedReport]:
    """Yield the reports that arrived in the second that ``moment`` covers."""
    columns = moment.columns
    metrics = [name for name in columns if name not in OWN]
    unknown = [math.nan] * len(moment.members)
    ages, intervals = columns.get("age_s", unknown), columns.get("interval", unknown)
    scores, gone = columns.get("score", unknown), columns.get("gone", unknown)
    for i, (name, new) in enumerate(zip(moment.members, columns.get("reports", unknown), strict=True)):
        if new != 1 or not math.isfinite(ages[i] + intervals[i] + scores[i]):
            continue
        reading = Reading(
            received=time - ages[i],
            interval=intervals[i],
            score=int(scores[i]),
            metrics={metric: columns[metric][i] for metric in metrics if math.isfinite(columns[metric][i])},
            alarm=moment.alarms.get(name, ""),
            gone=gone[i] == 1,
        )
        yield RecordedReport(name, reading)
