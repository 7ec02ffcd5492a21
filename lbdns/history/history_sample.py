"""History samples: the state of all pools, sampled once per second and converted to columns with one value per member.

Sans-I/O.

Counts are stored as differences: a column in ``COUNTS`` contains the increase since the previous sample. The column
``seconds`` of the chunk contains the time since the previous sample.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from lbdns.history.column_codec import ABSENT
from lbdns.model.farm import Farm, Pool
from lbdns.model.liveness import STATES, State, silent_at
from lbdns.model.snapshot import NO_METRICS, Reading, Snapshot
from lbdns.native_extension import AVAILABLE
from lbdns_shared.metric_catalogue import STANDARD_METRICS

if AVAILABLE:
    import lbdns_native

#: The pool name under which the server's own columns are stored; real pools have no empty name
SERVER: Final = ""
COUNTS: Final = frozenset({"answers", "reports", "queries", "types", "rcodes"})
#: Cumulative columns: of several values, the last one is kept, without rounding
CUMULATIVE: Final = frozenset({"requests_total", "httpd_cpu_seconds"})
EXACT: Final = CUMULATIVE | COUNTS | {"score", "state"}
#: Columns without a useful mean
RAW_ONLY: Final = frozenset({"state", "gone"})
#: The columns of a pool in addition to the metrics that its members report
OWN: Final[Mapping[str, str]] = {
    "answers": "answers/s",
    "score": "score",
    "usable": "fraction of the time during which the member was usable",
    "age_s": "age of the newest report, s",
    "interval": "report interval, s",
    "reports": "reports/s, at most 1",
    "state": "state, as a number",
    "gone": "1 after a bye",
}
OF_SERVER: Final[Mapping[str, str]] = {
    "queries": "queries/s",
    "types": "queries/s by type",
    "rcodes": "responses/s by rcode",
}
MAX_METRICS: Final = 64  # per pool; the catalogue has 18. Reports may contain other metrics, but must not fill the disk
MAX_NAMES: Final = 100  # types, or rcodes; the rest is recorded as "other"
OTHERS: Final = "other"

NEVER: Final = -1.0  # monotonic seconds: when a reading arrived that does not exist
UNCOUNTED: Final = -1  # answers of a member that the previous sample does not contain

ColumnRow = Sequence[float]
N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class PoolHistorySample:
    """The state of one pool at one moment. All sequences are in the order of ``members``.

    The names in ``members`` are relative to the zone.
    """

    name: str
    zone: str
    policies: Mapping[str, str]  # owner name -> policy
    members: tuple[str, ...]
    readings: tuple[Reading | None, ...]
    states: tuple[State, ...]
    answers: tuple[int, ...]  # so far


@dataclass(frozen=True, slots=True)
class HistorySample:
    """The state of all pools at one moment.

    ``time`` is in Unix seconds, and ``now`` is in monotonic seconds.

    ``types`` contains the numbers of queries so far, keyed by type name. ``rcodes`` contains the numbers of responses,
    keyed by RCODE name. ``stale_after`` is in report intervals.

    """

    time: float
    now: float
    stale_after: float
    pools: tuple[PoolHistorySample, ...]
    types: Mapping[str, int] = field(default_factory=dict)
    rcodes: Mapping[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The total number of members across all pools."""
        return sum(len(pool.members) for pool in self.pools)


def take_history_sample(
    snapshot: Snapshot,
    farm: Farm,
    states: Mapping[str, Sequence[State]],
    answers: Mapping[str, Sequence[int]],
    types: Mapping[str, int],
    rcodes: Mapping[str, int],
    now_unix: float,
    now_monotonic: float,
) -> HistorySample:
    """Return a sample of ``farm``. ``states`` and ``answers`` map pool names to sequences in the order of members.

    If an answering process still uses an older configuration, a sequence may have the wrong length; its values are then
    treated as unknown.
    """
    pools = [_pool_sample(p, snapshot, states.get(p.name, ()), answers.get(p.name, ())) for p in farm.pools]
    stale_after = farm.config.collector.stale_after
    return HistorySample(now_unix, now_monotonic, stale_after, tuple(pools), dict(types), dict(rcodes))


def _pool_sample(pool: Pool, snapshot: Snapshot, states: Sequence[State], answers: Sequence[int]) -> PoolHistorySample:
    count = len(pool.members)
    unknown: State = "unknown"
    return PoolHistorySample(
        name=pool.name,
        zone=pool.config.zone,
        policies=pool.config.names,
        members=tuple(member.name for member in pool.members),
        readings=tuple([snapshot.readings.get(member.full_name) for member in pool.members]),
        states=tuple(states) if len(states) == count else (unknown,) * count,
        answers=tuple(answers) if len(answers) == count else (),
    )


@dataclass(slots=True)
class ColumnGroup:
    """The values of one pool, or of the server, at a given time. Each row has one value per name in ``names``."""

    names: tuple[str, ...]
    rows: dict[str, ColumnRow] = field(default_factory=dict)


def packed_row(column: str, row: ColumnRow) -> array[float]:
    """Return ``row`` as an array, which takes an eighth of a list's memory.

    Columns that are stored exactly keep 64 bits per value.
    """
    kind = "d" if column in EXACT else "f"
    return row if isinstance(row, array) and row.typecode == kind else array(kind, row)


@dataclass(frozen=True, slots=True)
class HistoryMoment:
    """A sample that has been converted to columns.

    ``seconds`` is the time since the previous sample, or ABSENT. ``alarms`` is keyed by pool and member.
    """

    time: float
    seconds: float
    groups: Mapping[tuple[str, str], ColumnGroup]  # by (pool, "") or, for the server, (SERVER, column)
    alarms: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def pack(self) -> None:
        """Convert all rows to arrays, because dozens of moments stay in memory until their chunks are full."""
        for group in self.groups.values():
            group.rows = {column: packed_row(column, row) for column, row in group.rows.items()}


class _ServerCounts(NamedTuple):
    """What the next sample is compared with. The sample itself would keep an old reading of every member in memory."""

    now: float
    types: Mapping[str, int]
    rcodes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _MemberValues(Generic[N]):
    """A value of each member of a pool in the previous sample."""

    members: tuple[str, ...]
    values: array[N]

    def of(self, members: tuple[str, ...], missing: N) -> Sequence[N]:
        """Return the values in the order of ``members``, and ``missing`` for new members."""
        if members == self.members:
            return self.values
        known = dict(zip(self.members, self.values, strict=True))
        return [known.get(member, missing) for member in members]


class ColumnBuilder:
    """A converter from successive samples to moments, which compares each sample with the previous one."""

    def __init__(self) -> None:
        self._before: _ServerCounts | None = None
        self._received: dict[str, _MemberValues[float]] = {}  # by pool: when each member's newest reading arrived
        self._answers: dict[str, _MemberValues[int]] = {}  # by pool
        self._known: dict[tuple[str, str], dict[str, None]] = {}  # names in the order of their first appearance

    def build(self, sample: HistorySample) -> HistoryMoment:
        """Return the moment for ``sample``, which must be newer than all previous samples."""
        before, self._before = self._before, _ServerCounts(sample.now, sample.types, sample.rcodes)
        seconds = sample.now - before.now if before and sample.now > before.now else ABSENT
        groups = {(pool.name, ""): self._group(pool, sample) for pool in sample.pools}
        types, rcodes = (before.types, before.rcodes) if before else (None, None)
        total = ABSENT if types is None else _difference(sum(sample.types.values()), sum(types.values()))
        groups[SERVER, "queries"] = ColumnGroup(("queries",), {"queries": [total]})
        groups[SERVER, "types"] = self._server_group("types", sample.types, types)
        groups[SERVER, "rcodes"] = self._server_group("rcodes", sample.rcodes, rcodes)
        alarms = {
            (pool.name, name): reading.alarm
            for pool in sample.pools
            for name, reading in zip(pool.members, pool.readings, strict=True)
            if reading is not None and reading.alarm
        }
        return HistoryMoment(sample.time, seconds, groups, alarms)

    def _group(self, pool: PoolHistorySample, sample: HistorySample) -> ColumnGroup:
        readings, fresh = pool.readings, self._fresh(pool)
        current = [r if _holds(r, sample, new, pool.name) else None for r, new in zip(readings, fresh, strict=True)]
        metrics = [NO_METRICS if r is None else r.metrics for r in current]
        rows: dict[str, ColumnRow] = metric_rows(metrics, self._metrics_of(pool.name, metrics))
        rows["score"] = [ABSENT if r is None or r.score is None else float(r.score) for r in current]
        rows["reports"] = fresh
        rows["age_s"] = [ABSENT if r is None else max(0.0, sample.now - r.received) for r in readings]
        rows["interval"] = [ABSENT if r is None else r.interval for r in readings]
        rows["gone"] = [float(r is not None and r.gone) for r in readings]
        rows["state"] = [float(STATES.index(state)) for state in pool.states]
        rows["usable"] = [float(state == "usable") for state in pool.states]
        rows["answers"] = self._answered(pool)
        return ColumnGroup(pool.members, rows)

    def _fresh(self, pool: PoolHistorySample) -> ColumnRow:
        """Return 1 for each member that has reported since the previous sample, and 0 for all other members."""
        received = array("d", [NEVER if reading is None else reading.received for reading in pool.readings])
        before = self._received.get(pool.name, _MemberValues((), array("d"))).of(pool.members, NEVER)
        self._received[pool.name] = _MemberValues(pool.members, received)
        return [
            float(reading is not None and reading.score is not None and now != then)
            for reading, now, then in zip(pool.readings, received, before, strict=True)
        ]

    def _answered(self, pool: PoolHistorySample) -> ColumnRow:
        """Return the number of answers that have named each member since the previous sample."""
        if not pool.answers:
            return [ABSENT] * len(pool.members)
        answers = array("q", pool.answers)
        before = self._answers.get(pool.name, _MemberValues((), array("q"))).of(pool.members, UNCOUNTED)
        self._answers[pool.name] = _MemberValues(pool.members, answers)
        return [
            ABSENT if then == UNCOUNTED else _difference(now, then) for now, then in zip(answers, before, strict=True)
        ]

    def _metrics_of(self, pool: str, current: Iterable[Mapping[str, float]]) -> Iterable[str]:
        known = self._known.setdefault((pool, ""), dict.fromkeys(STANDARD_METRICS))
        return _with_new_names(known, set().union(*current).difference(OWN), MAX_METRICS)

    def _server_group(self, column: str, now: Mapping[str, int], before: Mapping[str, int] | None) -> ColumnGroup:
        known = tuple(_with_new_names(self._known.setdefault((SERVER, column), {}), now, MAX_NAMES))
        if before is None:
            return ColumnGroup(known, {column: [ABSENT] * len(known)})
        counts = [_difference(now.get(name, 0), before.get(name, 0)) for name in known]
        if len(now) > len(known):
            rest = sum(now.values()) - sum(before.values()) - sum(count for count in counts if count == count)
            return ColumnGroup((*known, OTHERS), {column: [*counts, max(0.0, rest)]})
        return ColumnGroup(known, {column: counts})


def metric_rows(metrics: list[Mapping[str, float]], names: Iterable[str]) -> dict[str, ColumnRow]:
    """Return a packed row for each of ``names``, with its value in each of ``metrics``."""
    kinds = {name: "d" if name in EXACT else "f" for name in names}
    found = None
    if AVAILABLE:
        exact = [(name, kind == "d") for name, kind in kinds.items()]
        found = lbdns_native.metric_rows(metrics, exact)
    if found is None:
        return {name: array(kind, [m.get(name, ABSENT) for m in metrics]) for name, kind in kinds.items()}
    return {name: array(kind, row) for (name, kind), row in zip(kinds.items(), found, strict=True)}


def _with_new_names(known: dict[str, None], names: Iterable[str], limit: int) -> Iterable[str]:
    """Add new ``names`` to ``known``, up to ``limit`` names in total.

    The columns of known names do not change.
    """
    new = sorted(name for name in names if name not in known)
    known.update(dict.fromkeys(new[: max(0, limit - len(known))]))
    return known


def _holds(reading: Reading | None, sample: HistorySample, fresh: float, pool: str) -> bool:
    """Return whether a reading is still valid.

    A silent member has no valid reading, so its line in the plot ends.
    """
    if reading is None:
        return False
    silent = reading.gone or reading.failure(pool) or sample.now >= silent_at(reading, sample.stale_after)
    return bool(fresh) or not silent


def _difference(now: int, before: int) -> float:
    """Return a counter's increase, or ABSENT if it restarted."""
    return float(now - before) if now >= before else ABSENT
