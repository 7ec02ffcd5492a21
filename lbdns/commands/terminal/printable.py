"""Format values for a terminal: numbers, rates, times, events, overrides, and untrusted text made safe. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from rich.text import Text

from lbdns.text.duration import format_duration

#: Member state -> colour. A colour never adds information.
STATES: Final[Mapping[str, str]] = {
    "usable": "green",
    "silent": "red",
    "alarm": "red",
    "drained": "yellow",
    "unknown": "dim",
}
LEVELS: Final[Mapping[str, str]] = {"warning": "yellow", "error": "bold red"}


def printable(value: object) -> str:
    """Return one line without control characters: names and reasons come from other machines."""
    text = str(value)
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def number(value: float | None, decimals: int = 0) -> str:
    return "-" if value is None else f"{float(value):.{decimals}f}"


def percent(part: float | None) -> str:
    return "-" if part is None else f"{float(part):.0%}"


def per_second(value: float | None) -> str:
    """Return a rate in at most six characters."""
    if value is None:
        return "-"
    for limit, divisor, decimals, unit in ((10, 1, 2, ""), (1e3, 1, 1, ""), (1e5, 1, 0, ""), (1e8, 1e3, 0, "k")):
        if round(abs(value), decimals) < limit:
            return f"{value / divisor:.{decimals}f}{unit}"
    return f"{value / 1e6:.0f}M"


def clock_time(moment: float) -> str:
    """Return a point in time (Unix seconds) in the format of log lines."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def event_line(event: Mapping[str, Any], is_short: bool = False) -> Text:
    """Return one line for an event document, without the date if ``is_short``.

    Raises KeyError, TypeError or ValueError if the document is not an event.
    """
    level, moment = str(event["level"]), clock_time(float(event["time"]))
    line = Text(f"{moment.partition('T')[2] if is_short else moment} ", "dim")
    line.append(f"{printable(level):<7} {printable(event['kind'])}: ", LEVELS.get(level, ""))
    return line.append(printable(event["text"]), "default")


def override_text(override: Mapping[str, Any], now: float) -> str:
    """Return a phrase such as ``drained by root 12min ago, for another 1h48min: new kernel``."""
    kind = str(override["kind"])
    said = {"drain": "drained", "up": "forced up", "down": "forced down"}.get(kind)
    said = said or (f"weight {float(override['factor']):g}" if kind == "weight" else printable(kind))
    by = f" by {printable(override['by'])}" if override["by"] else ""
    pool = f" in pool {printable(override['pool'])}" if override["pool"] else ""
    ago = f" {format_duration(now - float(override['since']))} ago"
    until = override["until"]
    ends = "" if until is None else f", for another {format_duration(float(until) - now)}"
    reason = f": {printable(override['reason'])}" if override["reason"] else ""
    return f"{said}{pool}{by}{ago}{ends}{reason}"
