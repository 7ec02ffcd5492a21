"""Which tier tells of a span of time, and how its moments become a few points. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lbdns.history.tiers import RAW, TIERS, Tier, TierName

#: A hole in the times of more than so many steps is shown: a plot doesn't draw a line over it
GAP: Final = 2.5


@dataclass(frozen=True, slots=True)
class Series:
    """One metric over time, by member. ``times`` are Unix seconds, the beginnings of ``step_s`` seconds each."""

    pool: str
    metric: str
    tier: TierName
    step_s: float
    times: tuple[float, ...]
    series: Mapping[str, tuple[float | None, ...]]

    def document(self) -> dict[str, Any]:
        """As the HTTP interface tells it."""
        return {
            "pool": self.pool,
            "metric": self.metric,
            "tier": self.tier,
            "step_s": self.step_s,
            "times": list(self.times),
            "series": {name: list(values) for name, values in self.series.items()},
        }


def choose(begins: Mapping[TierName, float], start: float, end: float, points: int) -> Tier:
    """The coarsest tier that has ``points`` moments in the span; if it doesn't reach back to ``start``, the nearest
    one that does, or else that which reaches furthest. ``begins``: when what each tier has begins, Unix seconds."""
    step = (end - start) / points
    at = max((i for i, tier in enumerate(TIERS) if tier.step <= step), default=0)
    order = (*TIERS[at:], *reversed(TIERS[:at]))
    best, reach = order[0], math.inf
    for tier in order:
        begin = max(start, begins.get(tier.name, math.inf))
        if begin < reach - 2 * tier.step:  # every tier begins a step or two after the finer one
            best, reach = tier, begin
        if reach <= start + 2 * tier.step:
            break
    return best


def step_of(tier: Tier, start: float, end: float, points: int) -> float:
    """Seconds a point: as many of the tier's steps as it takes to have no more than ``points``."""
    return tier.step * max(1, math.ceil((end - start) / points / tier.step - 1e-9))


@dataclass(frozen=True, slots=True)
class Slots:
    """Where each moment goes: ``of`` maps its time to the number of a point, ``times`` are those of the points."""

    times: tuple[float, ...]
    of: Mapping[float, int]


def slots(moments: Iterable[float], tier: Tier, step: float) -> Slots:
    """Points for moments (Unix seconds): those of one step are one point, those that stand alone keep their time, and a
    hole gets a point without values."""
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
    return Slots(tuple(times), found)


class Sums:
    """Values gathered by member and point. Of rates the counts and the seconds, of everything else the values."""

    def __init__(self, points: int) -> None:
        self._points = points
        self._sums: dict[str, tuple[list[float], list[float]]] = {}

    def add(
        self, member: str, values: Sequence[float], weights: Sequence[float], runs: Sequence[tuple[int, int, int]]
    ) -> None:
        """``values`` of consecutive moments, absent ones NaN, each of so much weight; ``runs`` say which of them
        (from, to) belong to which point."""
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
        """Member by member."""
        for member, both in self._sums.items():
            yield (
                member,
                tuple([_value(total / count) if count > 0 else None for total, count in zip(*both, strict=True)]),
            )


def _value(value: float) -> float | None:
    """With the digits that say something, so that documents are short."""
    if not math.isfinite(value):
        return None
    return float(f"{value:.7g}") if abs(value) < 1e6 else round(value, 1)
