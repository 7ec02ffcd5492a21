"""The table of ``lbdns status``: every pool with its members, in 80 columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Column heading, metric, decimals. Idle is of the processors, queue the runnable tasks.
METRICS: Final = (
    ("idle %", "cpu_idle", 1),
    ("queue", "run_queue", 0),
    ("req/s", "requests_per_s", 1),
    ("busy", "busy_workers", 0),
    ("ping ms", "gateway_ping", 2),
)
STYLES: Final[Mapping[str, str]] = {
    "usable": "green",
    "silent": "red",
    "alarm": "red",
    "drained": "yellow",
    "unknown": "dim",
}


def show(status: Mapping[str, Any], console: Console | None = None) -> None:
    """Print the answer of /api/v1/status. Raises KeyError, TypeError or ValueError if it isn't one."""
    console = console or Console(highlight=False)
    server = status["server"]
    tables = [(_table(pool), [*_guards(pool), *_shadows(pool)]) for pool in status["pools"]]
    console.print(
        Text(
            f"lbdns {server['version']}, up {_duration(float(server['uptime_s']))}, "
            f"{int(server['queries'])} queries, {int(server['workers'])} worker(s)"
        )
    )
    for table, lines in tables:
        console.print()
        console.print(table)
        for line in lines:
            console.print(line)


def _table(pool: Mapping[str, Any]) -> Table:
    title = Text(f"pool {pool['name']} in zone {pool['zone'] or '.'}, asked as {', '.join(pool['policies'])}")
    if pool["fail_open"]:
        why = pool.get("fail_open_reason") or "no member is usable"
        title.append(f"\nfail open ({why}): everybody who is not drained is handed out", "bold red")
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 0))
    table.title, table.title_justify, table.title_style = title, "left", ""
    table.add_column("member", overflow="fold", min_width=12)
    table.add_column("state", no_wrap=True)
    for heading in ("score", "age s", "share", *(heading for heading, _, _ in METRICS)):
        table.add_column(heading, justify="right", no_wrap=True)
    for member in pool["members"]:
        state, metrics = str(member["state"]), member["metrics"]
        table.add_row(
            Text(member["name"]),
            Text(state, STYLES.get(state, "")),
            _number(member["score"]),
            _number(member["age_s"], 1),
            _share(member["share"]),
            *(_number(metrics.get(metric), decimals) for _, metric, decimals in METRICS),
        )
    return table


def _guards(pool: Mapping[str, Any]) -> list[Text]:
    """A line for each member that gets less than its share although it is usable."""
    found = [(member["name"], member.get("guard", "")) for member in pool["members"]]  # an older server has none
    return [Text(f"{name}: {text}", "yellow" if text.startswith("ramp") else "red") for name, text in found if text]


def _shadows(pool: Mapping[str, Any]) -> list[Text]:
    """A line for each policy beside which another is tried."""
    lines = []
    for tried in pool.get("shadow", ()):  # an older server has none
        score = f" by score {tried['score']}" if tried["score"] else ""
        count, total = int(tried["diverted"]), sum(map(int, tried["answers"].values()))
        what = f"in the shadow of {tried['policy']}, {tried['shadow']}{score}: would have sent elsewhere"
        lines.append(Text(f"{what} {count} of {total} ({float(tried['diverted_share']):.0%})"))
    return lines


def _number(value: float | None, decimals: int = 0) -> Text:
    return Text("-" if value is None else f"{float(value):.{decimals}f}")


def _share(value: float | None) -> Text:
    return Text("-" if value is None else f"{float(value):.0%}")


def _duration(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    parts = [(days, "d"), (hour, "h"), (minute, "min"), (second, "s")]
    first = next((i for i, (value, _) in enumerate(parts) if value), len(parts) - 1)
    return " ".join(f"{value} {unit}" for value, unit in parts[first : first + 2])
