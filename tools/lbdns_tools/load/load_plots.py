"""Plots of the load generator's results: a sweep, one run over time, or a frontier. Requires matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lbdns_tools.load.capacity_search import FrontierPoint
from lbdns_tools.load.result_rows import ResultRow, by_point, server_labels, swept
from lbdns_tools.load.run_statistics import spread
from lbdns_tools.plot_files import COLOURS, legend_below, log_times, need_matplotlib, new, save, style, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LATENCIES: Final = {"p99_s": "99th percentile", "p95_s": "95th percentile", "p50_s": "median", "mean_s": "mean"}
PERCENTILES: Final = tuple(sorted({*(0.5 * i for i in range(1, 200)), 99.9, 99.99, 100.0}))
MANY_SERVERS: Final = len(COLOURS)
NOTHING: Final = float("nan")  # not drawn

Points = Sequence[tuple[float, Sequence[ResultRow]]]  # x value, and the repetitions there


def draw(path: Path, rows: Sequence[ResultRow], edges: Sequence[FrontierPoint] = ()) -> None:
    """Plot a frontier, a sweep, or a single run over time, and save it to ``path``. Raises LbdnsError."""
    need_matplotlib()
    if edges:
        figure = frontier(edges)
    elif len(by_point(rows)) > 1:
        figure = sweep(rows)
    else:
        figure = over_time(rows)
    save(figure, path)


def sweep(rows: Sequence[ResultRow]) -> Figure:
    """Plot requests/s, latency and errors against clients or rate, with error bars and one line per label."""
    lines, axis = _lines(rows)
    one = len(lines) == 1
    figure, ((rates, latencies), (errors, shares)) = new(2, 2, 10.0, 7.0)
    for panel in (rates, latencies, errors, shares):
        tidy(panel)
        panel.set_xlabel(axis)
    for number, (label, points) in enumerate(lines.items()):
        _line(rates, points, "requests_per_s", label, number)
        _line(errors, points, "error_percent", label, number)
        for place, (name, what) in enumerate(LATENCIES.items()):
            if one:
                _line(latencies, points, name, what, place, 1000)
            elif name == "p95_s":  # several percentiles for several labels would be unreadable
                _line(latencies, points, name, label, number, 1000)
    rates.set_ylabel("successful requests/s")
    rates.set_ylim(bottom=0)
    latencies.set_ylabel("latency, ms" if one else "latency, 95th percentile, ms")
    log_times(latencies)
    errors.set_ylabel("failed requests, %")
    errors.set_ylim(0, max(1.0, errors.get_ylim()[1]))
    if one:
        _shares(shares, next(iter(lines.values())))
        latencies.legend(frameon=False, fontsize=8)
    else:
        for number, (label, points) in enumerate(lines.items()):
            _line(shares, points, "mbit_per_s", label, number)
        shares.set_ylabel("Mbit/s")
        shares.set_ylim(bottom=0)
        legend_below(figure, rates)
    title = next(iter(lines)) if one else ""
    figure.suptitle(title or f"Load against {axis}", fontsize=12)
    return figure


def _lines(rows: Sequence[ResultRow]) -> tuple[Mapping[str, Points], str]:
    """Return each label's points in ascending order, and the title of the x axis."""
    name = swept(rows)
    lines: dict[str, list[tuple[float, Sequence[ResultRow]]]] = {}
    for number, (point, runs) in enumerate(by_point(rows).items(), 1):
        place = getattr(point, name) if name else number
        lines.setdefault(point.label if name else "", []).append((float(place), runs))
    for points in lines.values():
        points.sort(key=lambda point: point[0])
    return lines, {"clients": "clients", "rate_per_s": "rate, requests/s"}.get(name, "number of the run")


def _line(axes: Axes, points: Points, name: str, label: str, number: int, factor: float = 1.0) -> None:
    """Plot one statistic as a line, with a gap wherever there is no result."""
    spreads = [spread([row.figures for row in runs]) for _, runs in points]
    means = [NOTHING if (mean := found.mean[name]) is None else mean * factor for found in spreads]
    bars = [(found.deviation[name] or 0.0) * factor for found in spreads]
    places = [place for place, _ in points]
    axes.errorbar(places, means, yerr=bars if any(bars) else None, capsize=2, label=label, **style(number))


def _shares(axes: Axes, points: Points) -> None:
    servers = server_labels([row for _, runs in points for row in runs])
    for number, (server, label) in enumerate(servers.items()):
        means = []
        for _, runs in points:
            shares = [100 * row.figures.shares.get(server, 0.0) for row in runs if row.figures.shares]
            means.append(sum(shares) / len(shares) if shares else NOTHING)
        axes.plot([place for place, _ in points], means, label=label, **style(number))
    axes.set_ylabel("share of the requests, %")
    axes.set_ylim(0, 105)
    if 0 < len(servers) <= MANY_SERVERS:
        axes.legend(frameon=False, fontsize=8)


def over_time(rows: Sequence[ResultRow]) -> Figure:
    """Plot the requests of one run over time, and the latency distribution of each repetition.

    For each second of the first repetition, the upper panel shows how many requests started, succeeded and failed. In
    an open loop, a request counts as started when it is due.
    """
    figure, ((rates,), (latencies,)) = new(2, 1, 9.0, 7.0)
    for panel in (rates, latencies):
        tidy(panel)
    series = rows[0].tally.series()
    seconds = [second + 0.5 for second, *_ in series]
    for place, what, number in ((1, "started", 2), (2, "successful", 0), (3, "failed", 1)):
        rates.plot(seconds, [moment[place] for moment in series], label=what, color=COLOURS[number], linewidth=1.6)
    rates.set_xlabel("time, s")
    rates.set_ylabel("requests/s")
    rates.set_ylim(bottom=0)
    rates.legend(frameon=False)
    for number, row in enumerate(rows):
        found = [(value, percent) for percent in PERCENTILES if (value := row.tally.latency.percentile(percent))]
        if found:
            label = f"repetition {row.repetition}" if len(rows) > 1 else None
            colour = COLOURS[number % len(COLOURS)]
            latencies.step([1000 * value for value, _ in found], [percent for _, percent in found],
                           where="post", label=label, color=colour)  # fmt: skip
    latencies.set_xscale("log")
    latencies.set_xlabel("latency, ms (including failed requests)")
    latencies.set_ylabel("requests within this latency, %")
    latencies.set_ylim(0, 101)
    if len(rows) > 1:
        latencies.legend(frameon=False)
    figure.suptitle(rows[0].point.label or "Load over time", fontsize=12)
    return figure


def frontier(edges: Sequence[FrontierPoint]) -> Figure:
    """Plot the highest rate for each number of connections, and all passed and failed trials."""
    figure, ((axes,),) = new(1, 1, 8.0, 5.0)
    tidy(axes)
    trials = [(edge.connections, trial) for edge in edges for trial in edge.found.trials]
    for what, colour, marker, failed in (("passed", COLOURS[2], "o", False), ("failed", COLOURS[1], "x", True)):
        places = [(count, trial.value) for count, trial in trials if bool(trial.why) is failed]
        axes.scatter([x for x, _ in places], [y for _, y in places], label=what, color=colour, marker=marker, s=22)
    found = [(edge.connections, edge.found.highest) for edge in edges if edge.found.highest is not None]
    axes.plot(
        [x for x, _ in found], [y for _, y in found], color=COLOURS[0], linewidth=1.8, label="highest rate that passed"
    )
    axes.set_xlabel("connections")
    axes.set_ylabel("requests/s")
    axes.set_ylim(bottom=0)
    if len(edges) > 1 and max(edge.connections for edge in edges) > 20 * min(edge.connections for edge in edges):
        axes.set_xscale("log")
    axes.legend(frameon=False)
    figure.suptitle("Highest rate for each number of connections", fontsize=12)
    return figure
