"""Prints the load generator's results: tables with WebStone's columns, the servers' shares, and notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lbdns_tools.load.capacity_search import SearchResult
from lbdns_tools.load.request_tally import ERRORS
from lbdns_tools.load.result_rows import LoadPoint, ResultRow, by_point, server_labels, swept
from lbdns_tools.load.run_statistics import RepetitionSpread, spread

NO_RESULT: Final = "no result"
FEW_SERVERS: Final = 5  # shares that fit next to each other in a terminal, under names or IPv4 addresses
ENDINGS: Final = {
    "criteria": "failed above: {why}",
    "top": "end of the range",
    "bottom": "failed at the lowest value: {why}",
    "generator": "stopped by the load generator's own limit: {why}",
    "trials": "too many trials; last failure: {why}",
}


def show(rows: Sequence[ResultRow], console: Console) -> None:
    """Print WebStone's table (at most 100 characters wide), the servers' shares, and notes on failures and limits."""
    points = by_point(rows)
    spreads = {point: spread([row.figures for row in runs]) for point, runs in points.items()}
    # With keep-alive, the number of connections says nothing about the work done
    is_kept = any(row.point.keep_alive for row in rows)
    rate_name, rate = ("req/s", "requests_per_s") if is_kept else ("conn/s", "connections_per_s")
    headings = ("in\nprogress", "mean\nms", "p50\nms", "p95\nms", "p99\nms", "max\nms", "error\n%", "Mbit/s")
    table = _table(_heading(rows), rate_name, *headings)
    for point, found in spreads.items():
        if not found.measured:
            table.add_row(Text(_name(point, rows)), NO_RESULT, *["-"] * 8)
            continue
        mean, off = found.mean, found.deviation
        table.add_row(
            Text(_name(point, rows)),
            _cell(mean[rate], off[rate]),
            _cell(mean["littles_load_factor"]),
            _cell(mean["mean_s"], off["mean_s"], 1000),
            _cell(mean["p50_s"], None, 1000),
            _cell(mean["p95_s"], off["p95_s"], 1000),
            *(_cell(mean[name], None, 1000) for name in ("p99_s", "max_s")),
            *(_cell(mean[name]) for name in ("error_percent", "mbit_per_s")),
        )
    console.print(table)
    _show_shares(points, rows, console)
    for point, runs in points.items():
        for line in _notes(runs, spreads[point]):
            console.print(Text(f"{_name(point, rows)} {_heading(rows)}: {line}"))


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 0))
    for place, heading in enumerate(headings):
        table.add_column(Text(heading), justify="right" if place else "left", no_wrap=True)
    return table


def _heading(rows: Sequence[ResultRow]) -> str:
    return {"clients": "clients", "rate_per_s": "rate/s"}.get(swept(rows), "run")


def _name(point: LoadPoint, rows: Sequence[ResultRow]) -> str:
    """Return a point's rate or number of clients, followed by the point's label if labels differ between rows."""
    number = getattr(point, swept(rows), None)
    label = point.label if number is None or len({row.point.label for row in rows}) > 1 else ""
    return " ".join(part for part in (f"{number:g}" if number is not None else "", label) if part)


def _cell(value: float | None, deviation: float | None = None, factor: float = 1.0) -> str:
    if value is None:
        return NO_RESULT
    return _three(value * factor) + (f" ±{_three(deviation * factor)}" if deviation is not None else "")


def _three(value: float) -> str:
    """Format a number with three significant digits, keeping all digits before the decimal point."""
    if value >= 99.95 or value == 0:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def _show_shares(points: Mapping[LoadPoint, Sequence[ResultRow]], rows: Sequence[ResultRow], console: Console) -> None:
    labels = server_labels(rows)
    if len(labels) < 2:
        return
    few = len(labels) <= FEW_SERVERS
    names = list(labels.values()) if few else ["lowest", "highest", "servers"]
    console.print("\nShare of the requests, %")
    table = _table(_heading(rows), *names)
    for point, runs in points.items():
        reached = [row.figures.shares for row in runs if row.figures.shares]
        if not reached:
            table.add_row(Text(_name(point, rows)), NO_RESULT, *["-"] * (len(names) - 1))
            continue
        shares = {
            label: 100 * sum(each.get(server, 0.0) for each in reached) / len(reached)
            for server, label in labels.items()
        }
        texts = [_three(share) for share in shares.values()] if few else _extremes(shares)
        table.add_row(Text(_name(point, rows)), *texts)
    console.print(table)


def _extremes(shares: Mapping[str, float]) -> list[str]:
    """Return the lowest and the highest share, each with the server's label, and the number of servers with a share."""
    ends = [pick(shares.items(), key=lambda item: item[1]) for pick in (min, max)]
    return [*(f"{label}: {_three(share)}" for label, share in ends), str(sum(share > 0 for share in shares.values()))]


def _notes(runs: Sequence[ResultRow], found: RepetitionSpread) -> list[str]:
    """Return notes on failed requests, repetitions without a result, and limits of the load generator."""
    lines = []
    counts = {error: sum(row.figures.errors[error] for row in runs) for error in ERRORS}
    if any(counts.values()):
        kinds = ", ".join(f"{count} {error}" for error, count in counts.items() if count)
        lines.append(f"{sum(counts.values())} of {sum(row.figures.requests for row in runs)} requests failed: {kinds}")
    if 0 < found.measured < found.repetitions:
        lines.append(f"{found.repetitions - found.measured} of {found.repetitions} repetitions have no result")
    lines += [
        f"the load generator itself was the bottleneck{f' (repetition {row.repetition})' if len(runs) > 1 else ''}: "
        f"{row.figures.saturated}"
        for row in runs
        if row.figures.saturated
    ]
    return lines


def show_searches(
    headings: Sequence[str], searches: Iterable[tuple[Sequence[str], SearchResult]], console: Console
) -> None:
    """Print a table with one row per search: a description, the result, and the reason why the search ended."""
    table = _table(*headings, "mean ms", "p95 ms", "p99 ms", "error %", "trials")
    table.add_column("ended by")
    for cells, found in searches:
        figures = found.figures
        table.add_row(
            *cells,
            NO_RESULT if found.highest is None else f"{found.highest:.5g}",
            *(_cell(figures.number(name), None, 1000) if figures else "-" for name in ("mean_s", "p95_s", "p99_s")),
            _cell(figures.error_percent) if figures else "-",
            str(len(found.trials)),
            Text(ENDINGS[found.ending].format(why=found.why)),
        )
    console.print(table)
