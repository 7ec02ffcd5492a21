"""``[collector]``: where reports come from and which of them count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lbdns.config.reading import optional_path, section
from lbdns.endpoint import REPORT_PORT, Endpoint, parse_listen
from lbdns.toml_table import Table


@dataclass(frozen=True, slots=True)
class CollectorConfig:
    listen: tuple[Endpoint, ...] = (Endpoint("0.0.0.0", REPORT_PORT),)
    key_file: Path | None = None
    stale_after: float = 3.0  # report intervals
    score: str = "thesis"
    connect: str = ""  # URL of a collector to follow instead of listening for reports
    stat_file: Path | None = None


def read_collector(root: Table, base: Path, scores: Iterable[str]) -> CollectorConfig:
    table = section(root, "collector")
    default = CollectorConfig()
    collector = CollectorConfig(
        listen=table.each("listen", default.listen, lambda text: parse_listen(text, REPORT_PORT)),
        key_file=optional_path(table, "key_file", base),
        stale_after=table.number("stale_after", default.stale_after, 1.0, 1000.0),
        score=table.one_of("score", default.score, (default.score, *scores)),
        connect=table.string("connect"),
        stat_file=optional_path(table, "stat_file", base),
    )
    if collector.connect:
        parts = urlsplit(collector.connect)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            table.wrong("connect", f"{collector.connect!r} is no URL of a collector, such as http://127.0.0.1:8053")
        for key in ("listen", "key_file"):
            if key in table.values:
                table.wrong(key, "can't stand beside connect: the collector that is followed receives the reports")
    elif not collector.listen:
        table.wrong("listen", "names no address to receive reports on")
    table.end()
    return collector
