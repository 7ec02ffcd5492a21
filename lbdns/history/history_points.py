"""Computes the points of a plot: chooses the tier, assigns the recorded moments to points, and averages the values at
each point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from lbdns.history.history_chunk import RAW, SECONDS, TIERS, TIME, HistoryTier, TierName
from lbdns.history.history_database import HistoryDatabase
from lbdns.history.history_sample import COUNTS, SERVER

#: A gap of more steps than this becomes visible: a plot draws no line across it
GAP: Final = 2.5
DIGITS: Final = 7
#: The moments of one chunk that share a point: (point, first moment, end)
PointRun = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PlannedChunk:
    """A chunk to read: its key, the number of its moments, and the points that its moments belong to."""

    milliseconds: int
    count: int
    runs: Sequence[PointRun]


def plan_chunks(
    db: HistoryDatabase, tier: HistoryTier, start: float, end: float, step: float
) -> tuple[tuple[float, ...], list[PlannedChunk]]:
    """Return two values: the times of the points from ``start`` to ``end``, and the chunks that contain their
    moments."""
    chunks = [
        (milliseconds, times.values)
        for milliseconds in db.chunks(tier, start, end)
        if (times := db.column(tier, milliseconds, SERVER, TIME)) is not None
    ]
    points = series_points((t for _, times in chunks for t in times if start <= t <= end), tier, step)
    planned = [PlannedChunk(milliseconds, len(times), runs(times, points)) for milliseconds, times in chunks]
    return points.times, planned


def weights(db: HistoryDatabase, tier: HistoryTier, chunk: PlannedChunk, column: str) -> Sequence[float]:
    """Return the weight of each moment of a chunk.

    For counts, the weight is the number of seconds that the moment covers, or 0 if this number is unknown. For all
    other columns, the weight is 1.
    """
    if column not in COUNTS:
        return [1.0] * chunk.count
    seconds = db.column(tier, chunk.milliseconds, SERVER, SECONDS)
    if seconds is None or len(seconds.values) != chunk.count:
        return [0.0] * chunk.count
    return [value if value == value else 0.0 for value in seconds.values]


def runs(times: Sequence[float], points: SeriesPoints) -> list[PointRun]:
    """Group successive moments that share a point into runs. Return a (point, first moment, end) tuple for each run."""
    found = []
    for point, places in groupby(range(len(times)), lambda at: points.of.get(times[at])):
        if point is not None:
            first, *others = places
            found.append((point, first, first + len(others) + 1))
    return found


def choose_tier(begins: Mapping[TierName, float], start: float, step: float) -> HistoryTier:
    """Return the coarsest tier with at least one moment in every ``step`` seconds from ``start``.

    If the data of this tier does not reach back to ``start``, return the nearest tier with data from ``start``. If no
    tier has data from ``start``, return the one with the oldest data. ``begins`` maps each tier to the Unix time at
    which its data begins.
    """
    at = max((i for i, tier in enumerate(TIERS) if tier.step <= step), default=0)
    order = (*TIERS[at:], *reversed(TIERS[:at]))
    best, reach = order[0], math.inf
    for tier in order:
        begin = max(start, begins.get(tier.name, math.inf))
        if begin < reach - 2 * tier.step:  # each tier begins a step or two after the next finer one
            best, reach = tier, begin
        if reach <= start + 2 * tier.step:
            break
    return best


def point_step(tier: HistoryTier, step: float) -> float:
    """Return the interval between points: the smallest multiple of the tier's step that is at least ``step``."""
    return tier.step * max(1, math.ceil(step / tier.step - 1e-9))


@dataclass(frozen=True, slots=True)
class SeriesPoints:
    """The points of a series. ``times`` lists the points' times. ``of`` maps each moment to the index of its point."""

    times: tuple[float, ...]
    of: Mapping[float, int]


def series_points(moments: Iterable[float], tier: HistoryTier, step: float) -> SeriesPoints:
    """Return the points for ``moments`` (Unix seconds).

    Moments within one step share a point. A point without values marks a gap. If ``step`` is so short that raw moments
    are not merged, each point has the exact time of its moment.
    """
    alone = tier is RAW and step <= tier.step
    times: list[float] = []
    found: dict[float, int] = {}
    for moment in sorted(set(moments)):
        time = moment if alone else math.floor(moment / step + 1e-9) * step
        if times and time - times[-1] > GAP * step:
            times.append(times[-1] + step)
        if not times or time > times[-1]:
            times.append(time)
        found[moment] = len(times) - 1
    return SeriesPoints(tuple(times), found)


class PointSums:
    """The sum of the values and the sum of their weights, for each member and point."""

    def __init__(self, points: int) -> None:
        self._points = points
        self._sums: dict[str, tuple[list[float], list[float]]] = {}

    def add(self, member: str, values: Sequence[float], weights: Sequence[float], runs: Sequence[PointRun]) -> None:
        """Add the ``values`` at consecutive moments (NaN if missing).

        Each item of ``runs`` is a (point, first moment, end) tuple.

        The weight of a count is the number of seconds that it covers; the mean of counts is therefore a rate.
        """
        sums, counts = self._sums.setdefault(member, ([0.0] * self._points, [0.0] * self._points))
        for point, begin, end in runs:
            total = sum(values[begin:end])
            if total == total:
                sums[point] += total
                counts[point] += sum(weights[begin:end])
                continue
            for value, weight in zip(values[begin:end], weights[begin:end], strict=True):
                if value == value:
                    sums[point] += value
                    counts[point] += weight

    def means(self, digits: int = DIGITS) -> Iterator[tuple[str, tuple[float | None, ...]]]:
        """Yield each member and its mean values at all points, rounded to ``digits`` significant digits."""
        for member, both in self._sums.items():
            values = [rounded(total / count, digits) if count > 0 else None for total, count in zip(*both, strict=True)]
            yield member, tuple(values)


def rounded(value: float, digits: int = DIGITS) -> float | None:
    """Return ``value`` rounded to about ``digits`` digits, which shortens the JSON, or None if it is not finite."""
    if not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}") if abs(value) < 1e6 else round(value, 1)
