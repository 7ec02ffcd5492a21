"""Format numbers, rates, events and overrides for a terminal, and escape untrusted text. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich.text import Text

from lbdns.text.times import format_duration, format_time

#: Member state -> colour. Colours only repeat what the text says.
STATES: Final[Mapping[str, str]] = {
    "usable": "green",
    "silent": "red",
    "alarm": "red",
    "drained": "yellow",
    "unknown": "dim",
}
#: Level of an event -> style
LEVELS: Final[Mapping[str, str]] = {"warning": "yellow", "error": "bold red"}
VERY_LARGE: Final = 1e9  # from here on, only the magnitude of a value is of interest


def printable(value: object) -> str:
    """Return ``value`` as one line with control characters escaped. Names and reasons are untrusted."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def number(value: float | None, decimals: int = 0) -> str:
    """Format a number for a table.

    Extremely large values are rounded, so that a single value does not widen the whole column.
    """
    if value is None:
        return "-"
    return f"{float(value):.{decimals}f}" if abs(value) < VERY_LARGE else f"{float(value):.0e}"


def percent(part: float | None) -> str:
    return "-" if part is None else f"{float(part):.0%}"


def per_second(value: float | None) -> str:
    """Format a rate in at most six characters."""
    if value is None:
        return "-"
    for limit, divisor, decimals, unit in ((10, 1, 2, ""), (1e3, 1, 1, ""), (1e5, 1, 0, ""), (1e8, 1e3, 0, "k")):
        if round(abs(value), decimals) < limit:
            return f"{value / divisor:.{decimals}f}{unit}"
    return f"{value / 1e6:.0f}M" if abs(value) < VERY_LARGE else f"{value:.0e}"


def event_line(event: Mapping[str, Any], is_short: bool = False) -> Text:
    """Format an event document as one line, without the date if ``is_short`` is true.

    Raises KeyError, TypeError or ValueError if the document is not an event.
    """
    level, moment = str(event["level"]), format_time(float(event["time"]))
    line = Text(f"{moment.partition('T')[2] if is_short else moment} ", "dim")
    line.append(f"{printable(level):<7} {printable(event['kind'])}: ", LEVELS.get(level, ""))
    return line.append(printable(event["text"]), "default")


def override_text(override: Mapping[str, Any], now: float) -> str:
    """Return a phrase such as ``drained by root 12min ago, for another 1h48min: new kernel``."""
    kind = str(override["kind"])
    what = {"drain": "drained", "up": "forced up", "down": "forced down"}.get(kind, printable(kind))
    if kind == "weight":
        what = f"weight {float(override['factor']):g}"
    by = f" by {printable(override['by'])}" if override["by"] else ""
    by += f" at {printable(server)}" if (server := override.get("server")) else ""  # absent in older servers
    pool = f" in pool {printable(override['pool'])}" if override["pool"] else ""
    ago = f" {format_duration(now - float(override['since']))} ago"
    until = override["until"]
    ends = "" if until is None else f", for another {format_duration(float(until) - now)}"
    reason = f": {printable(override['reason'])}" if override["reason"] else ""
    return f"{what}{pool}{by}{ago}{ends}{reason}"
