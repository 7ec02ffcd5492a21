"""Print the tables of ``lbdns status``: every pool with its members, in 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lbdns.commands.terminal.printable import STATES, number, override_text, percent, printable

#: Column heading, metric, decimals. "idle" is CPU idle time, "queue" the number of runnable tasks.
METRICS: Final = (
    ("idle %", "cpu_idle", 1),
    ("queue", "run_queue", 0),
    ("req/s", "requests_per_s", 1),
    ("busy", "busy_workers", 0),
    ("ping ms", "gateway_ping", 2),
)
MOST_LINES: Final = 10  # of one kind below a table; the table itself shows that a whole farm is silent


def show(status: Mapping[str, Any], console: Console | None = None) -> None:
    """Print the answer of /api/v1/status. Raises KeyError, TypeError or ValueError if it is not a status document."""
    console = console or Console(highlight=False)
    server = status["server"]
    now = float(server.get("started", 0.0)) + float(server["uptime_s"])
    head = [
        Text(
            f"lbdns {printable(server['version'])}, up {_duration(float(server['uptime_s']))}, "
            f"{int(server['queries'])} queries, {int(server['workers'])} worker(s)"
        ),
        *_history(server.get("history", {})),
    ]
    tables = [(_table(pool), [*_said(pool, now), *_shadows(pool)]) for pool in status["pools"]]
    for line in head:
        console.print(line)
    for table, lines in tables:
        console.print()
        console.print(table)
        for line in lines:
            console.print(line)


def _history(history: Mapping[str, Any]) -> Iterator[Text]:
    """Yield problems of the history."""
    if not history.get("on"):
        return
    if not history["ok"]:
        yield Text(f"history: cannot be written: {printable(history['error'])}", "bold red")
    if history["dropped"]:
        yield Text(f"history: {int(history['dropped'])} records lost since the start", "red")


def _table(pool: Mapping[str, Any]) -> Table:
    asked = ", ".join(map(printable, pool["policies"]))
    title = Text(f"pool {printable(pool['name'])} in zone {printable(pool['zone'] or '.')}, names {asked}")
    if pool["fail_open"]:
        why = printable(pool.get("fail_open_reason") or "no member is usable")
        title.append(f"\nfail open ({why}): every member that is not drained is selected", "bold red")
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 0))
    table.title, table.title_justify, table.title_style = title, "left", ""
    table.add_column("member", overflow="fold", min_width=12)
    table.add_column("state", no_wrap=True)
    for heading in ("score", "age s", "share", "cap", *(heading for heading, _, _ in METRICS)):
        table.add_column(heading, justify="right", no_wrap=True)
    for member in pool["members"]:
        state, metrics = str(member["state"]), member["metrics"]
        table.add_row(
            Text(printable(member["name"])),
            Text(printable(state), STATES.get(state, "")),
            number(member["score"]),
            number(member["age_s"], 1),
            percent(member["share"]),
            percent(member.get("capacity_share")),  # absent in older servers
            *(number(metrics.get(metric), decimals) for _, metric, decimals in METRICS),
        )
    return table


def _said(pool: Mapping[str, Any], now: float) -> Iterator[Text]:
    """Yield lines about single members: overrides, reasons of their states, guard rails. ``now`` is in Unix seconds."""
    members: Sequence[Mapping[str, Any]] = pool["members"]
    yield from _some(
        Text(f"{printable(member['name'])}: {override_text(override, now)}", "yellow")
        for member in members
        for override in member.get("overrides", ())
    )
    yield from _some(
        Text(f"{printable(member['name'])}: {printable(member['reason'])}", STATES.get(str(member["state"]), ""))
        for member in members
        if member.get("reason") and not member.get("overrides")
    )
    guards = ((printable(member["name"]), printable(member.get("guard", ""))) for member in members)
    yield from _some(
        Text(f"{name}: {text}", "yellow" if text.startswith("ramp") else "red") for name, text in guards if text
    )


def _some(lines: Iterable[Text]) -> Iterator[Text]:
    found = list(lines)
    yield from found[:MOST_LINES]
    if len(found) > MOST_LINES:
        yield Text(f"... and {len(found) - MOST_LINES} more; --json shows all", "dim")


def _shadows(pool: Mapping[str, Any]) -> list[Text]:
    """Yield a line for each shadow policy."""
    lines = []
    for tried in pool.get("shadow", ()):  # absent in older servers
        score = f" by score {printable(tried['score'])}" if tried["score"] else ""
        count, total = int(tried["diverted"]), sum(map(int, tried["answers"].values()))
        policy, shadow = printable(tried["policy"]), printable(tried["shadow"])
        what = f"shadow of {policy}, {shadow}{score}: would have selected another member for"
        lines.append(Text(f"{what} {count} of {total} ({float(tried['diverted_share']):.0%})"))
    return lines


def _duration(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    parts = [(days, "d"), (hour, "h"), (minute, "min"), (second, "s")]
    first = next((i for i, (value, _) in enumerate(parts) if value), len(parts) - 1)
    return " ".join(f"{value} {unit}" for value, unit in parts[first : first + 2])
