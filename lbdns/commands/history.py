"""``lbdns history``: what was recorded, as a table, CSV or JSON. Reads the file; no server is needed."""

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

from lbdns.commands.history_table import show_events, show_series
from lbdns.commands.options import config_option
from lbdns.config import load_config
from lbdns.config.history import FILE_NAME
from lbdns.duration import parse_duration
from lbdns.errors import ConfigError
from lbdns.events import Event
from lbdns.history.columns import OF_SERVER, SERVER
from lbdns.history.reader import Reader
from lbdns.history.series import Series
from lbdns.history.times import parse_time

POINTS: Final = 600
MAX_POINTS: Final = 100_000
EVENTS: Final = 1000


class _Read(click.ParamType[Any]):
    """An option's value as ``read`` reads it; its ValueError is the error."""

    def __init__(self, name: str, read: Callable[[str], float]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._read(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


_TIME: Final = _Read("T", lambda text: parse_time(text, time.time()))
_SPAN: Final = _Read("SPAN", parse_duration)


@click.command(
    epilog="Exit status: 0 well, 1 when there is no history or it can't be read, 2 for bad arguments.",
)
@config_option
@click.option("--file", type=click.Path(path_type=Path), metavar="DB", help="The history itself, instead of FILE's.")
@click.option("--pool", help="Which pool, where several are recorded.")
@click.option(
    "--metric",
    default="answers",
    show_default=True,
    help="A metric of the reports, or score, answers, usable, age_s, reports; of the server: queries, types, rcodes.",
)
@click.option(
    "--member", "members", multiple=True, metavar="X", help="Of this member alone. May be said several times."
)
@click.option("--from", "start", type=_TIME, help="From this time on: Unix seconds, ISO 8601 or -2h.")
@click.option("--to", "end", type=_TIME, help="Until then.  [default: now]")
@click.option("--last", type=_SPAN, help="From so long before --to, such as 30min or 7d.  [default: 1h]")
@click.option(
    "--points", type=click.IntRange(1, MAX_POINTS), default=POINTS, show_default=True, help="About so many times."
)
@click.option("--events", "events", is_flag=True, help="What happened, instead of a metric.")
@click.option("--csv", "as_csv", is_flag=True, help="A line for each time, a column for each member.")
@click.option("--json", "as_json", is_flag=True, help="As /api/v1/history and /api/v1/log say it.")
def history(config: Path, file: Path | None, events: bool, **said: Any) -> None:
    """Show what was recorded: one metric of a pool's members over time, or the events.

    Reads the file that a server with this configuration keeps, whether it runs or not. The further back, the coarser:
    every second for an hour, means of 10 s for a day, means of a minute for 30 days, unless [history] says otherwise.

    \b
    Examples:
      lbdns history                                       answers/s of the last hour
      lbdns history --metric cpu_idle --last 1d --member gandalf
      lbdns history --metric rcodes --from 2026-03-01T14:00 --to 2026-03-01T15:00 --csv
      lbdns history --events --last 7d
    """
    if said["as_csv"] and said["as_json"]:
        raise click.UsageError("--csv and --json can't stand together")
    if said["start"] is not None and said["last"] is not None:
        raise click.UsageError("--from and --last can't stand together")
    end = time.time() if said["end"] is None else said["end"]
    start = end - (said["last"] or 3600.0) if said["start"] is None else said["start"]
    if start >= end:
        raise click.UsageError("--from is not before --to")
    reader = Reader(file if file is not None else load_config(config).server.state_dir / FILE_NAME)
    if events:
        found = reader.events(start, EVENTS, until=end)
        _print_events([event for event in found if said["pool"] in (None, event.pool)], said)
        return
    pool = _pool(reader, said["pool"], said["metric"])
    _print_series(reader.series(pool, said["metric"], said["members"], start, end, said["points"]), said)


def _pool(reader: Reader, pool: str | None, metric: str) -> str:
    if metric in OF_SERVER:
        return SERVER
    known = [info.name for info in reader.pools()]
    if pool is None and len(known) != 1:
        raise ConfigError(f"--pool: say which: {', '.join(known)}" if known else f"{reader.path}: no pool is recorded")
    return pool if pool is not None else known[0]


def _print_series(series: Series, said: Any) -> None:
    if said["as_json"]:
        click.echo(json.dumps(series.document()))
    elif said["as_csv"]:
        rows = zip(series.times, *series.series.values(), strict=True)
        _write_csv(["time", *series.series], [[f"{row[0]:.3f}", *map(_cell, row[1:])] for row in rows])
    else:
        show_series(series)


def _cell(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.10g}"


def _print_events(events: Sequence[Event], said: Any) -> None:
    if said["as_json"]:
        click.echo(json.dumps({"events": [event.document() for event in events]}))
    elif said["as_csv"]:
        names = ["time", "kind", "level", "pool", "member", "text"]
        _write_csv(names, [[str(event.document()[name]) for name in names] for event in events])
    else:
        show_events(events)


def _write_csv(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
