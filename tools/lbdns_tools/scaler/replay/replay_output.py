"""Prints the results of replays in the layout of the 2012 study's table 6.2, or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

from lbdns.text.times import format_duration
from lbdns_tools.scaler.replay.demand_trace import DemandTrace
from lbdns_tools.scaler.replay.fluid_replay import ReplayResult
from lbdns_tools.scaler.replay.replay_settings import ReplaySettings

#: The study's rows, in its order, followed by rows that only the replay has
ROWS: Final[tuple[tuple[str, Callable[[ReplayResult], str]], ...]] = (
    ("mean response ms", lambda result: f"{1000 * result.mean_response_s:.1f}"),
    ("99 % response ms", lambda result: f"{1000 * result.p99_response_s:.0f}"),
    ("mean CPU %", lambda result: f"{result.mean_cpu_percent:.2f}"),
    ("instance hours", lambda result: f"{result.instance_hours:.0f}"),
    ("cost $", lambda result: f"{result.cost:.2f}"),
    ("requests lost", lambda result: f"{result.lost:.0f}"),
    ("revenue $", lambda result: f"{result.revenue:.2f}"),
    ("mean servers", lambda result: f"{result.mean_servers:.2f}"),
    ("most servers", lambda result: f"{result.most_servers}"),
    ("servers started", lambda result: f"{result.starts}"),
)
NOTES: Final = (
    "Cost and revenue follow the study's formulas: cost = hours x price, revenue = (requests - lost) x income - cost.",
    "The replay calculates all other figures: hours and lost requests from a fluid model, response times from a "
    "queueing model (M/M/c). A replay does not reproduce the study's table 6.2, which was measured on real servers.",
)


def show(results: Sequence[ReplayResult], trace: DemandTrace, settings: ReplaySettings, console: Console) -> None:
    """Print a table with a column per policy, and notes on where the figures come from."""
    span = format_duration(trace.end - trace.begin - settings.warm_up)
    counted = f", counted after {format_duration(settings.warm_up)}" if settings.warm_up else ""
    console.print(
        f"{span} with {results[0].requests / 1e6:.2f} million requests{counted}; "
        f"a server serves {settings.capacity:.2f} requests/s",
        markup=False,
    )
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1))
    table.add_column("")
    for result in results:
        table.add_column(result.policy, justify="right")
    for name, text in ROWS:
        table.add_row(name, *(text(result) for result in results))
    console.print(table)
    for note in NOTES:
        console.print(note, style="dim", markup=False)


def as_json(results: Sequence[ReplayResult], trace: DemandTrace, settings: ReplaySettings) -> dict[str, Any]:
    """Return the results as the document that --json prints. Amounts of money have two decimals; numbers of requests
    are whole."""
    return {
        "policies": [_policy(result) for result in results],
        "trace": {"begin": trace.begin, "end": trace.end, "requests": round(trace.requests)},
        "settings": asdict(settings) | {"loss": settings.loss.value, "capacity": settings.capacity},
    }


def _policy(result: ReplayResult) -> dict[str, Any]:
    return {
        "policy": result.policy,
        "instance_hours": round(result.instance_hours, 3),
        "cost": round(result.cost, 2),
        "lost": round(result.lost),
        "revenue": round(result.revenue, 2),
        "requests": round(result.requests),
        "mean_response_ms": round(1000 * result.mean_response_s, 1),
        "p99_response_ms": round(1000 * result.p99_response_s, 1),
        "mean_cpu_percent": round(result.mean_cpu_percent, 2),
        "mean_servers": round(result.mean_servers, 2),
        "most_servers": result.most_servers,
        "servers_started": result.starts,
    }
