"""Turns recorded rows into charts: rates of disks and of cumulative metrics, and the values of other metrics. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns_agent.recorder.counter_increases import Increases, increases, is_long_pause, merged
from lbdns_agent.recorder.diskstats import SECTOR
from lbdns_agent.recorder.recorded_file import CounterRow, RecordedRows
from lbdns_shared.metric_catalogue import CATALOGUE

POINTS: Final = 1000  # of each line: more would not fit into the width of a chart
MAX_DEVICES: Final = 8  # in one picture
#: Metrics that are totals -> the unit of their rates
CUMULATIVE: Final = {"requests_total": "requests/s", "httpd_cpu_seconds": "cores"}


@dataclass(frozen=True)
class ChartLine:
    """A line that connects the points (``times``, ``values``). Times are in Unix seconds. A NaN value interrupts the
    line."""

    label: str
    times: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True)
class Chart:
    """One chart. The y axis shows ``unit``."""

    title: str
    unit: str
    lines: Sequence[ChartLine]


#: A rate or mean in one period, or NaN if there is none
Measure = Callable[[Increases], float]


def rate(*counters: str, factor: float = 1.0) -> Measure:
    """Return a function that computes the increase of ``counters`` per second, multiplied by ``factor``."""
    return lambda part: sum(map(part.of, counters)) * factor / part.seconds


def mean(total: str, count: str) -> Measure:
    """Return a function that divides the increase of ``total`` by that of ``count``, or returns NaN if ``count`` has
    not increased."""
    return lambda part: part.of(total) / part.of(count) if part.of(count) else math.nan


#: Title and unit of each chart of a disk, and the measure behind each line; a line that is always 0 may be left out
DISK_CHARTS: Final[Sequence[tuple[str, str, Mapping[str, Measure]]]] = (
    (
        "requests",
        "requests/s",
        {"read": rate("reads"), "write": rate("writes"), "discard": rate("discards"), "flush": rate("flushes")},
    ),
    (
        "data",
        "MB/s",
        {"read": rate("sectors_read", factor=SECTOR / 1e6), "write": rate("sectors_written", factor=SECTOR / 1e6)},
    ),
    ("mean time per request", "ms", {"read": mean("read_ms", "reads"), "write": mean("write_ms", "writes")}),
    ("busy time", "%", {"busy": rate("busy_ms", factor=0.1)}),
)
_OPTIONAL: Final = ("discard", "flush")


def charts(rows: RecordedRows, devices: Sequence[str]) -> list[Chart]:
    """Return four charts for each of the ``devices``, and then one for each metric.

    Raises ValueError if there is nothing to draw, because no device and no metric has two rows.
    """
    span = [row.time for device in devices for row in rows.disks[device]]
    span += [time for values in rows.metrics.values() for time, _ in values]
    shortest = (max(span) - min(span)) / POINTS if span else 0.0
    found = []
    for device in devices:
        found += disk_charts(device, merged(increases(rows.disks[device]), shortest))
    for metric, values in rows.metrics.items():
        found += metric_charts(metric, values, shortest)
    if not any(not math.isnan(value) for chart in found for line in chart.lines for value in line.values):
        raise ValueError("nothing to draw: a rate needs two rows, without a restart of the host in between")
    return found


def busiest(disks: Mapping[str, Sequence[CounterRow]]) -> list[str]:
    """Return at most ``MAX_DEVICES`` devices to draw, in file order. Idle devices are omitted unless all are idle."""
    transferred = {device: _transferred(rows) for device, rows in disks.items()}
    active = [device for device in disks if transferred[device]] or list(disks)
    chosen = sorted(active, key=lambda device: -transferred[device])[:MAX_DEVICES]
    return [device for device in disks if device in chosen]


def _transferred(rows: Sequence[CounterRow]) -> int:
    parts = filter(None, increases(rows))
    return sum(part.of("sectors_read") + part.of("sectors_written") + part.of("writes") for part in parts)


def disk_charts(device: str, parts: Sequence[Increases | None]) -> list[Chart]:
    """Return the four charts of one device."""
    found = []
    for title, unit, measures in DISK_CHARTS:
        lines = [_steps(label, parts, measure) for label, measure in measures.items()]
        found.append(Chart(f"{device}: {title}", unit, [line for line in lines if _is_shown(line)]))
    return found


def _is_shown(line: ChartLine) -> bool:
    return line.label not in _OPTIONAL or any(value > 0 for value in line.values)


def _steps(label: str, parts: Sequence[Increases | None], measure: Measure) -> ChartLine:
    """Return a stepped line that is flat within each part, because a rate is a mean over the whole part."""
    times: list[float] = []
    values: list[float] = []
    for part in parts:
        if part is None:
            times += times[-1:]
            values += [math.nan] * (len(times) - len(values))
        else:
            times += [part.start, part.end]
            values += [measure(part)] * 2
    return ChartLine(label, times, values)


def metric_charts(metric: str, points: Sequence[tuple[float, float]], shortest: float) -> list[Chart]:
    """Return the chart of one metric, averaged over ``shortest`` seconds, or no chart if it was never measured."""
    unit = CATALOGUE[metric].unit if metric in CATALOGUE else ""
    if metric in CUMULATIVE:
        unit, points = CUMULATIVE[metric], _rates(points)
    points = _averages(_with_gaps(points), shortest)
    if all(math.isnan(value) for _, value in points):
        return []
    times, values = zip(*points)
    return [Chart(metric, unit, [ChartLine(metric, times, values)])]


def _rates(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Turn the recorded values of a total into increases per second.

    An increase is NaN if the total has decreased, which means that the web server was restarted.
    """
    found = []
    for (before, old), (after, new) in zip(points, points[1:]):
        known = after > before and new >= old
        found.append((after, (new - old) / (after - before) if known else math.nan))
    return found


def _with_gaps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points, with a NaN after each pause in which nothing was recorded."""
    pauses = [after - before for (before, _), (after, _) in zip(points, points[1:])]
    found = list(points[:1])
    for at, point in enumerate(points[1:]):
        if pauses[at] <= 0 or is_long_pause(pauses, at):
            found.append((points[at][0], math.nan))
        found.append(point)
    return found


def _averages(points: Sequence[tuple[float, float]], shortest: float) -> list[tuple[float, float]]:
    """Merge successive points: each result is the mean over at least ``shortest`` seconds.

    A NaN ends the current group of points early, and stays in the result.
    """
    found: list[tuple[float, float]] = []
    group: list[tuple[float, float]] = []
    for time, value in [*points, (math.inf, math.nan)]:
        if group and (math.isnan(value) or time - group[0][0] >= shortest):
            found.append((group[-1][0], sum(value for _, value in group) / len(group)))
            group = []
        if not math.isnan(value):
            group.append((time, value))
        elif not math.isinf(time):
            found.append((time, value))
    return found
