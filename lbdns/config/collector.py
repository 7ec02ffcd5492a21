"""``[collector]``: where reports come from and which of them count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lbdns.config.reading import optional_path, section
from lbdns.endpoint import REPORT_PORT, Endpoint, parse_listen
from lbdns.toml_table import Table, nearest


@dataclass(frozen=True, slots=True)
class CollectorConfig:
    listen: tuple[Endpoint, ...] = (Endpoint("0.0.0.0", REPORT_PORT),)
    key_file: Path | None = None
    stale_after: float = 3.0  # report intervals
    score: str = "thesis"
    shadow_score: str = ""  # a score to try beside it; empty: none
    adapt: bool = False  # keep trying other weights of the score
    adapt_factor: float = 2.0  # how far a weight may go from the configured one, up or down
    adapt_period: float = 60.0  # s that weights are tried at a time
    connect: str = ""  # URL of a collector to follow instead of listening for reports
    connect_token_file: Path | None = None  # the token that the collector wants from its readers, if it wants one
    stat_file: Path | None = None


def _shadow_score(table: Table, built_in: str, scores: Iterable[str]) -> str:
    name, live = table.string("shadow_score"), table.values.get("score", built_in)
    known = [score for score in (built_in, *scores) if score != live]
    if not name or name in known:
        return name
    if name == live:
        table.wrong("shadow_score", f"{name!r} is the score that counts; try another one in its shadow")
    else:
        table.wrong("shadow_score", f"{name!r} is not known{nearest(name, known)}")
    return ""


def read_collector(root: Table, base: Path, scores: Iterable[str]) -> CollectorConfig:
    table = section(root, "collector")
    default = CollectorConfig()
    collector = CollectorConfig(
        listen=table.each("listen", default.listen, lambda text: parse_listen(text, REPORT_PORT)),
        key_file=optional_path(table, "key_file", base),
        stale_after=table.number("stale_after", default.stale_after, 1.0, 1000.0),
        score=table.one_of("score", default.score, (default.score, *scores)),
        shadow_score=_shadow_score(table, default.score, scores),
        adapt=table.flag("adapt", default.adapt),
        adapt_factor=table.number("adapt_factor", default.adapt_factor, 1.0, 100.0),
        adapt_period=table.number("adapt_period", default.adapt_period, 5.0, 86400.0),
        connect=table.string("connect"),
        connect_token_file=optional_path(table, "connect_token_file", base),
        stat_file=optional_path(table, "stat_file", base),
    )
    if collector.connect:
        parts = urlsplit(collector.connect)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            table.wrong("connect", f"{collector.connect!r} is no URL of a collector, such as http://127.0.0.1:8053")
        for key in ("listen", "key_file"):
            if key in table.values:
                table.wrong(key, "can't stand beside connect: the collector that is followed receives the reports")
        if collector.adapt:
            table.wrong("adapt", "can't stand beside connect: the collector that is followed makes the scores")
    elif collector.connect_token_file:
        table.wrong("connect_token_file", "says nothing without connect, the URL of the collector that wants the token")
    elif not collector.listen:
        table.wrong("listen", "names no address to receive reports on")
    table.end()
    return collector
