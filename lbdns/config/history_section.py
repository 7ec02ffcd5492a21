"""``[history]``: how long recorded metrics and events are kept, at each resolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import section
from lbdns.text.duration import format_duration, parse_duration

FILE_NAME: Final = "history.db"  # in [server] state_dir


@dataclass(frozen=True, slots=True)
class HistoryConfig:
    """How long each resolution is kept, in seconds; 0: not at all."""

    on: bool = True
    keep_raw: float = 3600.0  # every second
    keep_10s: float = 86_400.0  # means of 10 s
    keep_1min: float = 30 * 86_400.0  # means of a minute, and events


def read_history(root: TomlTable) -> HistoryConfig:
    """Return the section; errors go to the table."""
    table = section(root, "history")
    default = HistoryConfig()
    history = HistoryConfig(
        on=table.flag("on", default.on),
        keep_raw=_span(table, "keep_raw", table.string("keep_raw", format_duration(default.keep_raw))),
        keep_10s=_span(table, "keep_10s", table.string("keep_10s", format_duration(default.keep_10s))),
        keep_1min=_span(table, "keep_1min", table.string("keep_1min", format_duration(default.keep_1min))),
    )
    table.end()
    return history


def _span(table: TomlTable, key: str, text: str) -> float:
    if text == "0":
        return 0.0
    try:
        return parse_duration(text)
    except ValueError as error:
        table.wrong(key, f'{error}; or "0" to keep none')
        return 0.0
