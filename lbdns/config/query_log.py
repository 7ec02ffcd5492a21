"""``[query_log]``: some queries, written down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lbdns.config.reading import optional_path, section
from lbdns.toml_table import Table


@dataclass(frozen=True, slots=True)
class QueryLogConfig:
    file: Path | None = None  # JSON lines; None: off
    sample: float = 0.01  # the part of all queries that is written


def read_query_log(root: Table, base: Path) -> QueryLogConfig:
    table = section(root, "query_log")
    default = QueryLogConfig()
    query_log = QueryLogConfig(
        file=optional_path(table, "file", base),
        sample=table.number("sample", default.sample, 1e-6, 1.0),
    )
    table.end()
    return query_log
