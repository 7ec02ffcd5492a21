"""A record out of the history that ``lbdns serve`` keeps: the seconds of one pool that are still there one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lbdns.errors import ConfigError
from lbdns.history.columns import OWN
from lbdns.history.reader import PoolInfo, RawMoment, Reader
from lbdns.history.times import format_time
from lbdns.snapshot import Reading
from lbdns.toml_table import nearest
from lbdns_tools.sim.recording import Answered, Event, Header, Heard, Recording, read_recording

SQLITE: Final = b"SQLite format 3\0"  # what such a file begins with


def read_record(what: Path, begin: float | None = None, end: float | None = None) -> Recording:
    """``what`` is a record, or a history as FILE or FILE:POOL, of which ``begin`` and ``end`` (Unix seconds) cut out a
    part. Raises LbdnsError."""
    path, pool = _split(what)
    if not _is_history(path):
        if begin is not None or end is not None:
            raise ConfigError(f"--begin and --end: {path} is a record; they cut a part out of a history")
        return read_recording(what)
    return read_history(path, pool, 0.0 if begin is None else begin, 1e11 if end is None else end)


def _split(what: Path) -> tuple[Path, str]:
    before, colon, pool = str(what).rpartition(":")
    return (Path(before), pool) if colon and not what.exists() else (what, "")


def _is_history(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError:
        return False


def read_history(path: Path, pool: str, begin: float, end: float) -> Recording:
    """The record of a pool from ``begin`` to ``end`` (Unix seconds). Raises LbdnsError."""
    reader = Reader(path)
    about = _pool(reader, pool)
    gathered = _Gathered()
    for moment in reader.raw(about.name, begin, end):
        gathered.take(moment)
    if gathered.started is None:
        raise ConfigError(_nothing(reader, about.name, begin, end))
    members = tuple(gathered.members)
    events = gathered.events(members)
    return Recording(Header(about.name, about.zone, members, about.policies, gathered.started), tuple(events))


def _pool(reader: Reader, pool: str) -> PoolInfo:
    known = {info.name: info for info in reader.pools()}
    if not pool and len(known) == 1:
        return next(iter(known.values()))
    if not pool and known:
        raise ConfigError(f"--replay: {reader.path}: say which: FILE:POOL; recorded: {', '.join(known)}")
    if pool not in known:
        raise ConfigError(f"--replay: {reader.path}: no pool {pool!r} is recorded{nearest(pool, known)}")
    return known[pool]


def _nothing(reader: Reader, pool: str, begin: float, end: float) -> str:
    """Why there is nothing to replay."""
    begins = reader.begins()
    what = f"--replay: {reader.path}: nothing of pool {pool} is there second by second"
    if raw := begins.get("raw"):
        what += f" in that time; such values begin at {format_time(raw)}"
    means = min((time for tier, time in begins.items() if tier != "raw"), default=math.inf)
    if means < end:
        what += (
            f". Only means are left, from {format_time(means)} on, and they can't be replayed: see [history] keep_raw"
        )
    return what


class _Gathered:
    """What was heard and answered, with the times of the record: 0 is its first second."""

    def __init__(self) -> None:
        self.started: float | None = None
        self.members: dict[str, None] = {}  # in the order in which they were met
        self._heard: list[Event] = []
        self._answered: list[tuple[float, Mapping[str, int]]] = []

    def take(self, moment: RawMoment) -> None:
        self.members.update(dict.fromkeys(moment.members))
        if self.started is None:
            self.started = moment.time
        else:  # what was answered in the first second came before the record
            answers = moment.columns.get("answers", ())
            counts = {name: int(n) for name, n in zip(moment.members, answers, strict=False) if n > 0}
            self._answered.append((moment.time - self.started, counts))
        self._heard.extend(_heard(moment, moment.time - self.started))

    def events(self, members: tuple[str, ...]) -> list[Event]:
        """By time."""
        found = [*self._heard]
        found += [Answered(time, tuple(counts.get(name, 0) for name in members)) for time, counts in self._answered]
        found.sort(key=lambda event: event.time)
        return found


def _heard(moment: RawMoment, time: float) -> Iterator[Heard]:
    """The reports that were new in that second."""
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
        yield Heard(name, reading)
