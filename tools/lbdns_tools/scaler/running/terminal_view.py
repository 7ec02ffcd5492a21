"""Plain text for terminals: the plan of a round, and the status of a running scaler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from lbdns.text.counts import counted
from lbdns_tools.scaler.life_cycle.server_state import ON_THE_WAY

PROGRESS_HEADING: Final = "requests/s  wanted  in service  on their way  draining  stopped"
HEADINGS: Final = ("server", "state", "for", "requests/s", "CPU %", "connections", "why")


def status_text(status: Mapping[str, Any]) -> str:
    """Return a status document as text: the decision first, then the servers."""
    lines = [_headline(status), *_decision(status)]
    if servers := status["servers"]:
        lines += ["", *_table([HEADINGS, *map(_row, servers)])]
    if failures := status["failures"]:
        lines += ["", "failures: " + ", ".join(f"{count} x {what}" for what, count in sorted(failures.items()))]
    return "\n".join(lines)


def plan_text(status: Mapping[str, Any]) -> str:
    """Return what a scaler would do, as text."""
    changes = status["changes"] or ["nothing to do"]
    return "\n".join([status_text(status), "", "would do:", *(f"  {change}" for change in changes)])


def progress_line(status: Mapping[str, Any]) -> str:
    """Return the line to print below PROGRESS_HEADING: the figures of the last decision, then a bar with one character
    for each server."""
    counts, demand = status["counts"], status["demand"] or {"requests_per_s": 0.0}
    coming = sum(counts[state.value] for state in ON_THE_WAY)
    bar = "#" * counts["in service"] + "+" * coming + "-" * counts["draining"]
    return (
        f"{demand['requests_per_s']:10.1f}  {status['wanted'] or 0:6}  {counts['in service']:10}  {coming:12}"
        f"  {counts['draining']:8}  {counts['stopped']:7}  {bar}"
    ).rstrip()


def _headline(status: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in status["counts"].items() if count) or "no servers"
    limits = f"minimum {status['minimum']}, maximum {status['maximum']}"
    quota = "" if status["quota"] is None else f", quota {status['quota']}"
    return f"farm {status['farm']}: {counts} ({limits}{quota}; policy {status['policy']})"


def _decision(status: Mapping[str, Any]) -> Iterable[str]:
    if trouble := status["trouble"]:
        yield f"trouble: {trouble}"
    if demand := status["demand"]:
        cpu = "" if demand["cpu_percent"] is None else f", mean CPU {demand['cpu_percent']:.0f} %"
        yield (
            f"demand: {demand['requests_per_s']:.1f} requests/s{cpu}; "
            f"one server can serve {demand['capacity']:.1f} requests/s"
        )
        yield f"wanted: {counted(status['wanted'], 'server')}. {status['reason']}"


def _row(server: Mapping[str, Any]) -> tuple[str, ...]:
    def number(key: str, digits: int) -> str:
        return "-" if server[key] is None else f"{server[key]:.{digits}f}"

    state = server["state"] + (" (held by an operator)" if server["held"] else "")
    age = f"{server['age_s']:.0f} s"
    return (
        server["name"], state, age, number("requests_per_s", 1), number("cpu_percent", 0), number("connections", 0),
        server["reason"],
    )  # fmt: skip


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS) - 1)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)).rstrip() for row in rows
    ]
