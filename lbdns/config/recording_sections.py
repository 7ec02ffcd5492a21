"""Read ``[history]``, the retention times of recorded metrics, and ``[query_log]``, the log of sampled queries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import flag, key, number, optional_path
from lbdns.text.times import parse_duration

FILE_NAME: Final = "history.db"  # in [server] state_dir


def _duration(table: TomlTable, name: str, default: float) -> float:
    text = table.string(name, f"{default}s")
    try:
        return 0.0 if text == "0" else parse_duration(text)
    except ValueError as error:
        table.wrong(name, f'{error}; or write "0" to disable recording')
        return default


@dataclass(frozen=True, slots=True)
class HistoryConfig:
    """The retention time (s) for each resolution. The value 0 disables recording at a resolution."""

    on: bool = flag(True)
    keep_raw: float = key(_duration, 3600.0)  # every second
    keep_10s: float = key(_duration, 86_400.0)  # means of 10 s
    keep_1min: float = key(_duration, 30 * 86_400.0)  # means of a minute, and events


@dataclass(frozen=True, slots=True)
class QueryLogConfig:
    file: Path | None = optional_path()  # JSON lines; None: off
    sample: float = number(0.01, 1e-6, 1.0)  # the share of all queries that is logged
