"""``[query_log]``: the file that sampled queries are logged to, and the share of queries sampled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import optional_path, section


@dataclass(frozen=True, slots=True)
class QueryLogConfig:
    file: Path | None = None  # JSON lines; None: off
    sample: float = 0.01  # the share of all queries that is logged


def read_query_log(root: TomlTable, base: Path) -> QueryLogConfig:
    """Return the section; errors go to the table."""
    table = section(root, "query_log")
    default = QueryLogConfig()
    query_log = QueryLogConfig(
        file=optional_path(table, "file", base), sample=table.number("sample", default.sample, 1e-6, 1.0)
    )
    table.end()
    return query_log
