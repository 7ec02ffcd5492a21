"""One sample -> columns of numbers, one value a member: what is stored, under which name and how. Pure.

What is counted is stored as differences: a column of ``COUNTS`` says how many came since the sample before, and
the column ``seconds`` of the whole chunk how long that was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from lbdns.history.codec import ABSENT
from lbdns.history.sample import PoolSample, Sample
from lbdns.liveness import STATES, silent_at
from lbdns.metrics import CATALOGUE
from lbdns.snapshot import NO_METRICS, Reading

#: Not a pool's, but the server's: queries by type and responses by rcode. No pool is called so: its name isn't empty
SERVER: Final = ""
COUNTS: Final = frozenset({"answers", "reports", "queries", "types", "rcodes"})
#: Grow for ever: of several, the last counts, and they are not rounded
CUMULATIVE: Final = frozenset({"requests_total", "httpd_cpu_seconds"})
EXACT: Final = CUMULATIVE | COUNTS | {"score", "state"}
#: Nothing that a mean can be made of
RAW_ONLY: Final = frozenset({"state", "gone"})
#: Of a pool, besides the metrics that its members report
OWN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "answers": "answers/s",
        "score": "score",
        "usable": "share of the time that it was usable",
        "age_s": "age of the newest report, s",
        "interval": "report interval, s",
        "reports": "reports/s, one a second at most",
        "state": "state, as a number",
        "gone": "1 after a bye",
    }
)
OF_SERVER: Final[Mapping[str, str]] = MappingProxyType(
    {"queries": "queries/s", "types": "queries/s by type", "rcodes": "responses/s by rcode"}
)
MAX_METRICS: Final = 64  # of one pool; the catalogue has 18. Reports may name others, but not fill the disk with them
MAX_NAMES: Final = 100  # types, or rcodes; the others are counted together
OTHERS: Final = "other"

Row = list[float]


@dataclass(slots=True)
class Group:
    """The columns of one pool, or some of the server's, at one time: as many values each as there are ``names``."""

    names: tuple[str, ...]
    rows: dict[str, Row] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Moment:
    """A sample in columns. ``seconds`` since the sample before; ABSENT if there was none. ``alarms`` are by pool and
    member."""

    time: float
    seconds: float
    groups: Mapping[tuple[str, str], Group]  # by pool and ""; of the server by SERVER and the column's name
    alarms: Mapping[tuple[str, str], str] = field(default_factory=dict)


class Columns:
    """Makes moments of samples, in their order; knows the sample before."""

    def __init__(self) -> None:
        self._before: Sample | None = None
        self._received: dict[tuple[str, str], float] = {}
        self._answers: dict[tuple[str, str], int] = {}
        self._known: dict[tuple[str, str], dict[str, None]] = {}  # names, in the order in which they were met

    def of(self, sample: Sample) -> Moment:
        before, self._before = self._before, sample
        seconds = sample.now - before.now if before and sample.now > before.now else ABSENT
        groups = {(pool.name, ""): self._group(pool, sample) for pool in sample.pools}
        types, rcodes = (before.types, before.rcodes) if before else (None, None)
        total = ABSENT if types is None else _difference(sum(sample.types.values()), sum(types.values()))
        groups[SERVER, "queries"] = Group(("queries",), {"queries": [total]})
        groups[SERVER, "types"] = self._server_group("types", sample.types, types)
        groups[SERVER, "rcodes"] = self._server_group("rcodes", sample.rcodes, rcodes)
        alarms = {
            (pool.name, name): reading.alarm
            for pool in sample.pools
            for name, reading in zip(pool.members, pool.readings, strict=True)
            if reading is not None and reading.alarm
        }
        return Moment(sample.time, seconds, groups, alarms)

    def _group(self, pool: PoolSample, sample: Sample) -> Group:
        readings, fresh = pool.readings, self._fresh(pool)
        heard = [r if _is_so(r, sample, new) else None for r, new in zip(readings, fresh, strict=True)]
        metrics = [NO_METRICS if r is None else r.metrics for r in heard]
        rows = {name: [m.get(name, ABSENT) for m in metrics] for name in self._metrics_of(pool.name, metrics)}
        rows["score"] = [ABSENT if r is None else float(r.score) for r in heard]
        rows["reports"] = fresh
        rows["age_s"] = [ABSENT if r is None else max(0.0, sample.now - r.received) for r in readings]
        rows["interval"] = [ABSENT if r is None else r.interval for r in readings]
        rows["gone"] = [float(r is not None and r.gone) for r in readings]
        rows["state"] = [float(STATES.index(state)) for state in pool.states]
        rows["usable"] = [float(state == "usable") for state in pool.states]
        rows["answers"] = self._answered(pool)
        return Group(pool.members, rows)

    def _fresh(self, pool: PoolSample) -> Row:
        """1 for each member whose newest report is another than in the sample before."""
        found = []
        for name, reading in zip(pool.members, pool.readings, strict=True):
            received = -1.0 if reading is None else reading.received
            key = pool.name, name
            found.append(float(reading is not None and self._received.get(key) != received))
            self._received[key] = received
        return found

    def _answered(self, pool: PoolSample) -> Row:
        """Answers since the sample before."""
        if not pool.answers:
            return [ABSENT] * len(pool.members)
        found = []
        for name, count in zip(pool.members, pool.answers, strict=True):
            before = self._answers.get((pool.name, name))
            found.append(ABSENT if before is None else _difference(count, before))
            self._answers[pool.name, name] = count
        return found

    def _metrics_of(self, pool: str, heard: Iterable[Mapping[str, float]]) -> Iterable[str]:
        known = self._known.setdefault((pool, ""), dict.fromkeys(CATALOGUE))
        return _met(known, set().union(*heard).difference(OWN), MAX_METRICS)

    def _server_group(self, column: str, now: Mapping[str, int], before: Mapping[str, int] | None) -> Group:
        known = tuple(_met(self._known.setdefault((SERVER, column), {}), now, MAX_NAMES))
        if before is None:
            return Group(known, {column: [ABSENT] * len(known)})
        counts = [_difference(now.get(name, 0), before.get(name, 0)) for name in known]
        if len(now) > len(known):
            rest = sum(now.values()) - sum(before.values()) - sum(count for count in counts if count == count)
            return Group((*known, OTHERS), {column: [*counts, max(0.0, rest)]})
        return Group(known, {column: counts})


def _met(known: dict[str, None], names: Iterable[str], limit: int) -> Iterable[str]:
    """``known`` with those of ``names`` that are new, as long as there is room: who was there first is kept, so that
    columns don't change all the time."""
    new = sorted(name for name in names if name not in known)
    known.update(dict.fromkeys(new[: max(0, limit - len(known))]))
    return known


def _is_so(reading: Reading | None, sample: Sample, fresh: float) -> bool:
    """Whether what a reading says may still be so: the plot of a silent member ends."""
    if reading is None:
        return False
    return bool(fresh) or not (reading.gone or sample.now >= silent_at(reading, sample.stale_after))


def _difference(now: int, before: int) -> float:
    """How many came in between. Fewer than before: somebody counts anew, and since when is not known."""
    return float(now - before) if now >= before else ABSENT
