"""Reads the data for several plots of one pool at once, and combines the members that are not drawn separately.

A pool of a thousand members has a thousand series for each metric, more than a plot can show or a browser can read
quickly. ``read_plots`` returns the series of a few members, and one summary of all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from lbdns.history.history_chunk import HistoryTier, TierName
from lbdns.history.history_database import HistoryDatabase, StoredColumn, open_database
from lbdns.history.history_points import PlannedChunk, PointSums, choose_tier, plan_chunks, point_step, rounded, weights
from lbdns.history.history_sample import COUNTS, RAW_ONLY, SERVER
from lbdns_shared.errors import ConfigError

DIGITS: Final = 5  # significant digits of each value: a plot is a few hundred pixels high
AT_ONCE: Final = 100  # members of a plot whose values are added up between two pauses

PlotValues = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class PlotRequest:
    """The data that a viewer's plots need.

    ``metrics`` are metrics of the pool's members, and ``server_metrics`` are those of the server: queries, types or
    rcodes. Each of ``members`` gets a series of its own. ``start`` and ``end`` are in Unix seconds; ``step`` is the
    requested number of seconds between points.
    """

    pool: str
    metrics: Sequence[str]
    server_metrics: Sequence[str]
    members: Sequence[str]
    start: float
    end: float
    step: float


@dataclass(frozen=True, slots=True)
class MetricPlot:
    """The values of one metric: the series of single members, and summaries of all other members.

    ``others`` contains ``sum`` for a count, and ``mean``, ``lowest`` and ``highest`` for any other metric. ``others``
    is empty if there are no other members.
    """

    series: Mapping[str, PlotValues]
    others: Mapping[str, PlotValues]

    def document(self) -> dict[str, Any]:
        """Return the plot as a document for the HTTP API."""
        return {"series": self.series, "others": self.others}


@dataclass(frozen=True, slots=True)
class HistoryPlots:
    """The data of several plots, which share their ``times`` (Unix seconds). All mappings are keyed by metric."""

    pool: str
    tier: TierName
    step_s: float
    times: Sequence[float]
    metrics: Mapping[str, MetricPlot] = field(default_factory=dict)
    server: Mapping[str, Mapping[str, PlotValues]] = field(default_factory=dict)


def read_plots(path: Path, wanted: PlotRequest, rest: Callable[[], None] = lambda: None) -> HistoryPlots:
    """Read the data of several plots from the history file. Raises LbdnsError.

    A metric that has never been recorded has no series. ``rest`` is called after each small piece of work.
    """
    if not (math.isfinite(wanted.start) and math.isfinite(wanted.end) and wanted.start < wanted.end):
        raise ConfigError("plots: 'from' must be earlier than 'to'")
    with open_database(path) as db:
        tier = choose_tier(db.begins(), wanted.start, wanted.step)
        step = point_step(tier, wanted.step)
        times, chunks = plan_chunks(db, tier, wanted.start, wanted.end, step)
        read = _PlotReading(db, tier, chunks, len(times), rest)
        metrics = {metric: read.metric(wanted.pool, metric, wanted.members) for metric in wanted.metrics}
        server = {metric: read.metric(SERVER, metric, None).series for metric in wanted.server_metrics}
    return HistoryPlots(wanted.pool, tier.name, step, times, metrics, server)


class _PlotReading:
    """Reads several metrics from the same chunks."""

    def __init__(
        self, db: HistoryDatabase, tier: HistoryTier, chunks: Sequence[PlannedChunk], points: int,
        rest: Callable[[], None],
    ) -> None:  # fmt: skip
        self._db, self._tier, self._chunks, self._points, self._rest = db, tier, chunks, points, rest

    def metric(self, pool: str, metric: str, members: Sequence[str] | None) -> MetricPlot:
        """Return the plot of one metric. If ``members`` is None, every name has a series of its own."""
        if metric in RAW_ONLY:
            raise ConfigError(f"plots: {metric!r} has no mean values; read /api/v1/history instead")
        sums, others = PointSums(self._points), _OtherMembers(self._points)
        wanted = None if members is None else frozenset(members)
        for chunk in self._chunks:
            column = self._db.column(self._tier, chunk.milliseconds, pool, metric)
            if column is None or len(column.values) != chunk.count * len(column.names):
                continue
            seconds = weights(self._db, self._tier, chunk, metric)
            self._add_members(sums, column, chunk, seconds, wanted)
            if wanted is not None:
                others.add(column, chunk, seconds, wanted)
            self._rest()
        means = dict(sums.means(DIGITS))
        self._rest()
        blank = (None,) * self._points
        series = means if members is None else {name: means.get(name, blank) for name in members}
        return MetricPlot(series, others.summary(metric in COUNTS))

    def _add_members(
        self, sums: PointSums, column: StoredColumn, chunk: PlannedChunk, seconds: Sequence[float],
        wanted: frozenset[str] | None,
    ) -> None:  # fmt: skip
        places = [at for at, name in enumerate(column.names) if wanted is None or name in wanted]
        for number, at in enumerate(places, 1):
            values = column.values[at * chunk.count : (at + 1) * chunk.count]
            sums.add(column.names[at], values, seconds, chunk.runs)
            if number % AT_ONCE == 0:
                self._rest()


class _OtherMembers:
    """Summarises, at each point, all members that have no series of their own."""

    def __init__(self, points: int) -> None:
        self._sums, self._weights, self._seconds = [0.0] * points, [0.0] * points, [0.0] * points
        self._lowest, self._highest = [math.inf] * points, [-math.inf] * points
        self._any = False

    def add(
        self, column: StoredColumn, chunk: PlannedChunk, seconds: Sequence[float], excluded: frozenset[str]
    ) -> None:
        places = [at for at, name in enumerate(column.names) if name not in excluded]
        if not places:
            return
        self._any = True
        pick = itemgetter(*places) if len(places) > 1 else None
        for point, begin, end in chunk.runs:
            for at in range(begin, end):
                every = column.values[at :: chunk.count]  # of all members at one moment
                self._add_moment(point, pick(every) if pick else (every[places[0]],), seconds[at])

    def _add_moment(self, point: int, row: Sequence[float], seconds: float) -> None:
        total = sum(row)
        if total != total:
            row = [value for value in row if value == value]
            total = sum(row)
        if not row or not seconds:
            return
        self._sums[point] += total
        self._weights[point] += seconds * len(row)
        self._seconds[point] += seconds
        self._lowest[point] = min(self._lowest[point], *row)
        self._highest[point] = max(self._highest[point], *row)

    def summary(self, is_count: bool) -> Mapping[str, PlotValues]:
        """Return the series of the summary plot. For a count, this is the sum of all rates. For other metrics, these
        are the mean, the lowest and the highest values."""
        if not self._any:
            return {}
        if is_count:
            return {"sum": _quotients(self._sums, self._seconds)}
        return {
            "mean": _quotients(self._sums, self._weights),
            "lowest": [rounded(value, DIGITS) for value in self._lowest],
            "highest": [rounded(value, DIGITS) for value in self._highest],
        }


def _quotients(sums: Sequence[float], counts: Sequence[float]) -> list[float | None]:
    return [rounded(total / count, DIGITS) if count else None for total, count in zip(sums, counts, strict=True)]
