"""History series: choose a tier for a span of time, and combine its moments into a few points. Sans-I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from lbdns.history.history_chunk import RAW, TIERS, HistoryTier, TierName

#: A gap of more steps than this becomes visible: a plot draws no line across it
GAP: Final = 2.5


@dataclass(frozen=True, slots=True)
class HistorySeries:
    """One metric over time, by member. ``times`` are Unix seconds, each the start of ``step_s`` seconds."""

    pool: str
    metric: str
    tier: TierName
    step_s: float
    times: tuple[float, ...]
    series: Mapping[str, tuple[float | None, ...]]

    def document(self) -> dict[str, Any]:
        """Return the document for HTTP."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # asdict would copy every value


def choose_tier(begins: Mapping[TierName, float], start: float, end: float, points: int) -> HistoryTier:
    """Return the coarsest tier that has ``points`` moments in the span.

    If its data does not reach back to ``start``, return the nearest tier whose data does, or else the one that reaches
    back furthest. ``begins``: when each tier's data begins, in Unix seconds.
    """
    step = (end - start) / points
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


def point_step(tier: HistoryTier, start: float, end: float, points: int) -> float:
    """Return the seconds per point: the smallest multiple of the tier's step that gives at most ``points``."""
    return tier.step * max(1, math.ceil((end - start) / points / tier.step - 1e-9))


@dataclass(frozen=True, slots=True)
class SeriesPoints:
    """The points of a series: ``times`` of the points, and ``of``, the index of the point for each moment."""

    times: tuple[float, ...]
    of: Mapping[float, int]


def series_points(moments: Iterable[float], tier: HistoryTier, step: float) -> SeriesPoints:
    """Return the points for ``moments`` (Unix seconds).

    Moments within one step share a point, and a gap gets a point without values. Single raw moments keep their time.
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
    """Sums of values by member and point, with their weights."""

    def __init__(self, points: int) -> None:
        self._points = points
        self._sums: dict[str, tuple[list[float], list[float]]] = {}

    def add(
        self, member: str, values: Sequence[float], weights: Sequence[float], runs: Sequence[tuple[int, int, int]]
    ) -> None:
        """Add ``values`` of consecutive moments (NaN if missing). ``runs``: (point, first moment, end).

        The weight of a count is the number of its seconds, so that the means are rates.
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

    def means(self) -> Iterator[tuple[str, tuple[float | None, ...]]]:
        """Yield each member with the means of its points."""
        for member, both in self._sums.items():
            values = [_value(total / count) if count > 0 else None for total, count in zip(*both, strict=True)]
            yield member, tuple(values)


def _value(value: float) -> float | None:
    """Return the value with only its significant digits, so that documents stay short."""
    if not math.isfinite(value):
        return None
    return float(f"{value:.7g}") if abs(value) < 1e6 else round(value, 1)
