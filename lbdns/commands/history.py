"""``lbdns history``: print recorded metrics or events from the history file; needs no running server."""

from __future__ import annotations

import csv
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from lbdns.command_line.common_options import config_option
from lbdns.commands.history_table import show_events, show_series
from lbdns.config import load_config
from lbdns.config.recording_sections import FILE_NAME
from lbdns.events.event_log import LoggedEvent
from lbdns.history.history_reader import HistoryReader
from lbdns.history.history_sample import OF_SERVER, SERVER
from lbdns.history.history_series import HistorySeries
from lbdns.text.duration import parse_duration
from lbdns.text.moments import parse_time
from lbdns_shared.errors import ConfigError

POINTS: Final = 600
MAX_POINTS: Final = 100_000
EVENTS: Final = 1000


class _Parsed(click.ParamType[Any]):
    """An option type that converts text by ``read`` and reports its ValueError."""

    def __init__(self, name: str, read: Callable[[str], float]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._read(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


_TIME: Final = _Parsed("T", lambda text: parse_time(text, time.time()))
_SPAN: Final = _Parsed("DURATION", parse_duration)


@click.command(epilog="Exit status: 0 success, 1 if the history is missing or cannot be read, 2 for bad arguments.")
@config_option
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    metavar="DB",
    help="The history file, instead of the one that FILE names.",
)
@click.option("--pool", help="The pool; required if several pools are recorded.")
@click.option(
    "--metric",
    default="answers",
    show_default=True,
    help="A reported metric; score, answers, usable, age_s, reports; for the server: queries, types, rcodes.",
)
@click.option("--member", "members", multiple=True, metavar="X", help="Only this member. Can be repeated.")
@click.option("--from", "start", type=_TIME, help="Start time: Unix seconds, ISO 8601, or -2h for two hours ago.")
@click.option("--to", "end", type=_TIME, help="End time.  [default: now]")
@click.option("--last", type=_SPAN, help="Start this long before --to, such as 30min or 7d.  [default: 1h]")
@click.option(
    "--points",
    type=click.IntRange(1, MAX_POINTS),
    default=POINTS,
    show_default=True,
    help="Approximate number of points.",
)
@click.option("--events", "events", is_flag=True, help="Print events instead of a metric.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV: a line per time, a column per member.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, as /api/v1/history and /api/v1/log return it.")
def history(config: Path, file: Path | None, events: bool, **options: Any) -> None:
    """Print what was recorded: one metric of a pool's members over time, or the events.

    The command reads the history file of a server with this configuration, running or not. By default the file keeps
    every second for an hour, means of 10 s for a day, and means of a minute for 30 days; [history] changes that.

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
    reader = HistoryReader(file if file is not None else load_config(config).server.state_dir / FILE_NAME)
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
            f"--pool: choose one of: {', '.join(known)}" if known else f"{reader.path}: the history has no pools"
        )
    return pool if pool is not None else known[0]


def _print_series(series: HistorySeries, options: Any) -> None:
    if options["as_json"]:
        click.echo(json.dumps(series.document()))
    elif options["as_csv"]:
        rows = zip(series.times, *series.series.values(), strict=True)
        _write_csv(["time", *series.series], [[f"{row[0]:.3f}", *map(_cell, row[1:])] for row in rows])
    else:
        show_series(series)


def _cell(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.10g}"


def _print_events(events: Sequence[LoggedEvent], options: Any) -> None:
    if options["as_json"]:
        click.echo(json.dumps({"events": [event.document() for event in events]}))
    elif options["as_csv"]:
        names = ["time", "kind", "level", "pool", "member", "text"]
        _write_csv(names, [[str(event.document()[name]) for name in names] for event in events])
    else:
        show_events(events)


def _write_csv(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
