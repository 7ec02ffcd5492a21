"""Print the output of ``lbdns history``: a line per member, or a line per event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lbdns.events.event_log import LoggedEvent
from lbdns.history.history_sample import OF_SERVER, OWN
from lbdns.history.history_series import HistorySeries
from lbdns.text.moments import format_time
from lbdns_shared.metric_catalogue import CATALOGUE

BARS: Final = "▁▂▃▄▅▆▇█"
WIDTH: Final = 32  # characters of a line of bars
STYLES: Final[Mapping[str, str]] = {"warning": "yellow", "error": "bold red"}


def show_series(series: HistorySeries, console: Console | None = None) -> None:
    console = console or Console(highlight=False)
    where = f"pool {series.pool}" if series.pool else "the server"
    console.print(Text(f"{series.metric} of {where}, {_unit(series.metric)}"))
    values = [value for column in series.series.values() for value in column if value is not None]
    if not values:
        console.print(Text("no data in this time range"))
        return
    kind = "every second" if series.tier == "raw" else f"means of {'10 s' if series.tier == '10s' else 'a minute'}"
    console.print(
        Text(
            f"{format_time(series.times[0])} to {format_time(series.times[-1])}, "
            f"{len(series.times)} points of {series.step_s:g} s, from {kind}"
        )
    )
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 0))
    table.add_column("", overflow="fold", min_width=8)
    table.add_column(f"0 to {_number(max(values))}" if min(values) >= 0 else "", no_wrap=True)
    for heading in ("least", "mean", "most", "last"):
        table.add_column(heading, justify="right", no_wrap=True)
    low, high = min(0.0, *values), max(values)
    for name, column in series.series.items():
        known = [value for value in column if value is not None]
        if known:
            figures = (min(known), sum(known) / len(known), max(known), known[-1])
            table.add_row(Text(name), Text(_bars(column, low, high)), *(Text(_number(value)) for value in figures))
        else:
            table.add_row(Text(name), Text("no data"), "-", "-", "-", "-")
    console.print(table)


def _unit(metric: str) -> str:
    if metric in CATALOGUE:
        return CATALOGUE[metric].unit
    return OWN.get(metric) or OF_SERVER.get(metric) or "as reported"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _bars(values: Sequence[float | None], low: float, high: float) -> str:
    """Return one mean per character; a blank where there is no value."""
    count = min(WIDTH, len(values))
    found = []
    for at in range(count):
        piece = values[at * len(values) // count : (at + 1) * len(values) // count]
        known = [value for value in piece if value is not None]
        if not known:
            found.append(" ")
            continue
        height = (sum(known) / len(known) - low) / (high - low) if high > low else 0.0
        found.append(BARS[min(len(BARS) - 1, int(height * len(BARS)))])
    return "".join(found)


def show_events(events: Sequence[LoggedEvent], console: Console | None = None) -> None:
    console = console or Console(highlight=False)
    if not events:
        console.print(Text("no events in this time range"))
    for event in events:
        line = Text(f"{format_time(event.time)} {event.level:<7} {event.kind:<9} ", STYLES.get(event.level, ""))
        # Text from other programs must not contain terminal control characters
        line.append("".join(c if c.isprintable() else "?" for c in event.text))
        console.print(line, soft_wrap=True)
