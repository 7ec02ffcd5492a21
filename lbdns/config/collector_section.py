"""``[collector]``: where reports arrive, which of them are accepted, and which score they get."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import optional_path, section
from lbdns.scores import SCORES
from lbdns.text.suggestions import nearest
from lbdns_shared.endpoint import REPORT_PORT, Endpoint, parse_listen


@dataclass(frozen=True, slots=True)
class CollectorConfig:
    listen: tuple[Endpoint, ...] = (Endpoint("0.0.0.0", REPORT_PORT),)
    key_file: Path | None = None
    stale_after: float = 3.0  # report intervals
    score: str = "thesis"
    shadow_score: str = ""  # a score to evaluate in shadow; empty: none
    adapt: bool = False  # whether to keep trying other weights of the score
    adapt_factor: float = 2.0  # how far a weight may move from the configured one, up or down
    adapt_period: float = 60.0  # s that each trial of weights lasts
    connect: str = ""  # URL of a collector to follow instead of listening for reports
    connect_token_file: Path | None = None  # the token that the followed collector requires, if any
    stat_file: Path | None = None


def _shadow_score(table: TomlTable, default: str, scores: Iterable[str]) -> str:
    name, live = table.string("shadow_score"), table.values.get("score", default)
    known = [score for score in (*SCORES, *scores) if score != live]
    if not name or name in known:
        return name
    if name == live:
        table.wrong("shadow_score", f"{name!r} is already the score in use; name another one")
    else:
        table.wrong("shadow_score", f"unknown score {name!r}{nearest(name, known)}")
    return ""


def read_collector(root: TomlTable, base: Path, scores: Iterable[str]) -> CollectorConfig:
    """Return the section; ``scores`` are the names of the configured scores. Errors go to the table."""
    table = section(root, "collector")
    default = CollectorConfig()
    collector = CollectorConfig(
        listen=table.each("listen", default.listen, lambda text: parse_listen(text, REPORT_PORT)),
        key_file=optional_path(table, "key_file", base),
        stale_after=table.number("stale_after", default.stale_after, 1.0, 1000.0),
        score=table.one_of("score", default.score, (*SCORES, *scores)),
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
            table.wrong("connect", f"must be the URL of a collector, not {collector.connect!r}; write http://HOST:PORT")
        for key in ("listen", "key_file"):
            if key in table.values:
                table.wrong(key, "must not be set together with connect: the followed collector receives the reports")
        if collector.adapt:
            table.wrong("adapt", "must not be set together with connect: the followed collector computes the scores")
    elif collector.connect_token_file:
        table.wrong("connect_token_file", "has no effect without connect, the URL of the collector")
    elif not collector.listen:
        table.wrong("listen", "must name at least one address to receive reports on")
    table.end()
    return collector
