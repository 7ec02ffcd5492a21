"""``lbdns history``: print metrics or events from the history file, even if no server is running."""

from __future__ import annotations

import csv
import json
import math
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lbdns.command_line.common_options import DURATION, ParsedValue, config_option
from lbdns.commands.terminal.printable import LEVELS
from lbdns.commands.terminal.sparklines import ABOVE, bar_means, bar_scale, draw_bars
from lbdns.config import load_sections
from lbdns.config.recording_sections import FILE_NAME
from lbdns.events.event_log import LoggedEvent
from lbdns.history.history_reader import HistoryReader, HistorySeries
from lbdns.history.history_sample import OF_SERVER, OWN, SERVER
from lbdns.text.times import format_duration, format_time, parse_time
from lbdns_shared.errors import ConfigError
from lbdns_shared.metric_catalogue import CATALOGUE

POINTS: Final = 600
MAX_POINTS: Final = 100_000
EVENTS: Final = 1000
WIDTH: Final = 32  # characters of a line of bars
_TIME: Final = ParsedValue(lambda text: parse_time(text, time.time()), "T")


@click.command(epilog="Exit status: 0 on success, 1 if the history file cannot be read, 2 on invalid arguments.")
@config_option
@click.option(
    "--file", type=click.Path(path_type=Path), metavar="DB",
    help="Read this file instead of the history file in FILE's state directory.",
)  # fmt: skip
@click.option("--pool", help="Name of the pool; required if several pools are recorded.")
@click.option(
    "--metric", default="answers", show_default=True,
    help="For a pool: a metric, score, answers, usable, age_s or reports. For the server: queries, types or rcodes.",
)  # fmt: skip
@click.option("--member", "members", multiple=True, metavar="X", help="Print only this member. Can be repeated.")
@click.option(
    "--from", "start", type=_TIME, help="Start time: Unix seconds, an ISO 8601 time, or -2h for two hours ago."
)
@click.option("--to", "end", type=_TIME, help="End time.  [default: now]")
@click.option("--last", type=DURATION, help="Length of the time range before --to, such as 30min or 7d. [default: 1h]")
@click.option(
    "--points", type=click.IntRange(1, MAX_POINTS), default=POINTS, show_default=True,
    help="Approximate number of points.",
)  # fmt: skip
@click.option("--events", is_flag=True, help="Print events instead of a metric.")
@click.option(
    "--csv", "as_csv", is_flag=True, help="Print CSV with one row for each time and one column for each member."
)
@click.option("--json", "as_json", is_flag=True, help="Print the JSON that /api/v1/history or /api/v1/log returns.")
def history(config: Path, file: Path | None, events: bool, **options: Any) -> None:
    """Print recorded data: the history of one metric for each member of a pool, or the events.

    The command reads the history file in the configured state directory, even if the server is not running. By default,
    the file contains one-second values for the last hour, 10-second means for the last day, and one-minute means for
    the last 30 days. The section [history] of the configuration defines how long values are kept.

    \b
    Examples:
      lbdns history                                       answers/s of the last hour
      lbdns history --metric cpu_idle --last 1d --member gandalf
      lbdns history --metric rcodes --from 2026-03-01T14:00 --to 2026-03-01T15:00 --csv
      lbdns history --events --last 7d
    """
    if options["as_csv"] and options["as_json"]:
        raise click.UsageError("--csv and --json cannot be used together")
    if options["start"] is not None and options["last"] is not None:
        raise click.UsageError("--from and --last cannot be used together")
    end = time.time() if options["end"] is None else options["end"]
    start = end - (options["last"] or 3600.0) if options["start"] is None else options["start"]
    if start >= end:
        raise click.UsageError("--from must be before --to")
    reader = HistoryReader(file if file is not None else load_sections(config, "server").server.state_dir / FILE_NAME)
    if events:
        found = reader.events(start, EVENTS, until=end)
        _print_events([event for event in found if options["pool"] in (None, event.pool)], options)
        return
    pool = _pool(reader, options["pool"], options["metric"])
    _print_series(reader.series(pool, options["metric"], options["members"], start, end, options["points"]), options)


def _pool(reader: HistoryReader, pool: str | None, metric: str) -> str:
    if metric in OF_SERVER:
        return SERVER
    known = [info.name for info in reader.pools()]
    if pool is None and len(known) != 1:
        raise ConfigError(
            f"--pool: choose one of: {', '.join(known)}" if known else f"{reader.path}: the history contains no pools"
        )
    return pool if pool is not None else known[0]


def _print_series(series: HistorySeries, options: Any) -> None:
    if options["as_json"]:
        click.echo(json.dumps(series.document()))
    elif options["as_csv"]:
        columns = [map(_cell, column) for column in series.series.values()]
        _write_csv(["time", *series.series], zip((f"{moment:.3f}" for moment in series.times), *columns, strict=True))
    else:
        _print_table(series, Console(highlight=False))


def _cell(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.10g}"


def _write_csv(names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)


def _print_events(events: Sequence[LoggedEvent], options: Any) -> None:
    documents = [event.document() for event in events]
    if options["as_json"]:
        click.echo(json.dumps({"events": documents}))
    elif options["as_csv"]:
        names = ["time", "kind", "level", "pool", "member", "text"]
        _write_csv(names, [[str(document[name]) for name in names] for document in documents])
    else:
        console = Console(highlight=False)
        if not events:
            console.print(Text("no events in this time range"))
        for event in events:
            line = Text(f"{format_time(event.time)} {event.level:<7} {event.kind:<9} ", LEVELS.get(event.level, ""))
            # The text comes from other programs and may contain terminal control characters
            line.append("".join(c if c.isprintable() else "?" for c in event.text))
            console.print(line, soft_wrap=True)


def _print_table(series: HistorySeries, console: Console) -> None:
    """Print a table with one row per member."""
    where = f"pool {series.pool}" if series.pool else "the server"
    console.print(Text(f"{series.metric} of {where}, {_unit(series.metric)}"))
    values = [value for column in series.series.values() for value in column if value is not None]
    if not values:
        console.print(Text("no data in this time range"))
        return
    console.print(Text(f"{format_time(series.times[0])} to {format_time(series.times[-1])}"))
    console.print(Text(_resolution(series)))
    bars = {name: bar_means(column, WIDTH) for name, column in series.series.items()}
    low = min(0.0, *values)
    high, is_clipped = bar_scale([mean for means in bars.values() for mean in means if mean is not None], low)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 0))
    table.add_column("", overflow="fold", min_width=8)
    above = f", {ABOVE} above" if is_clipped else ""
    table.add_column(f"{_number(low)} to {_number(high)}{above}", no_wrap=True)
    for heading in ("least", "mean", "most", "last"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, column in series.series.items():
        known = [value for value in column if value is not None]
        if known:
            figures = (min(known), sum(known) / len(known), max(known), known[-1])
            table.add_row(
                Text(name), Text(draw_bars(bars[name], low, high)), *(Text(_number(value)) for value in figures)
            )
        else:
            table.add_row(Text(name), Text("no data"), "-", "-", "-", "-")
    console.print(table)


def _unit(metric: str) -> str:
    if metric in CATALOGUE:
        return CATALOGUE[metric].unit
    return OWN.get(metric) or OF_SERVER.get(metric) or "as reported"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _resolution(series: HistorySeries) -> str:
    """Return a line that states the time span of each value and of each bar."""
    recorded = {"raw": "recorded every second", "10s": "recorded as 10 s averages"}
    bar = series.step_s * len(series.times) / min(WIDTH, len(series.times))
    return (
        f"resolution: {_span(series.step_s)} per value ({recorded.get(series.tier, 'recorded as 1 min averages')}), "
        f"{_span(bar)} per bar"
    )


def _span(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 60 else format_duration(seconds)
