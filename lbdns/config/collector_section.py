"""Read ``[collector]``: the addresses for reports, the rules for accepting reports, and the computed scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import each, flag, number, one_of, optional_path, read_section, secret_path, string
from lbdns.scores import DEFAULT_SCORE, SCORES
from lbdns.text.suggestions import nearest
from lbdns_shared.endpoint import REPORT_PORT, Endpoint, parse_listen

StatFormat = Literal["lbdns", "1999"]  # the table of members, or the lines of the 1999 study

BUS: Final = "bus"  # the value of ``connect`` for the collectors that publish on the bus


@dataclass(frozen=True, slots=True)
class CollectorConfig:
    listen: tuple[Endpoint, ...] = each(
        (Endpoint("0.0.0.0", REPORT_PORT),), lambda text: parse_listen(text, REPORT_PORT)
    )
    key_file: Path | None = secret_path()
    stale_after: float = number(3.0, 1.0, 1000.0)  # report intervals
    max_interval: float = number(60.0, 0.1, 86400.0)  # s; a report that declares a longer interval counts as this
    score: str = string(DEFAULT_SCORE)
    shadow_score: str = string()  # a score to evaluate in shadow; empty: none
    adapt: bool = flag(False)  # whether to keep trying other weights for the score
    adapt_factor: float = number(2.0, 1.0, 100.0)  # how far a weight may move from the configured one, up or down
    adapt_period: float = number(60.0, 5.0, 86400.0)  # s that each trial of weights lasts
    connect: str = string()  # URL of a collector to follow instead of listening for reports, or "bus"
    connect_token_file: Path | None = secret_path()  # the token that the followed collector requires, if any
    stat_file: Path | None = optional_path()
    stat_format: StatFormat = one_of("lbdns", ("lbdns", "1999"))

    @property
    def follows_bus(self) -> bool:
        """Whether the server follows the collectors that publish on the bus."""
        return self.connect == BUS


def read_collector(root: TomlTable, scores: Iterable[str]) -> CollectorConfig:
    """Return the section ``[collector]``, and record any errors in it.

    ``scores`` contains the names of the configured scores.
    """
    known = (*SCORES, *scores)

    def check(collector: CollectorConfig, table: TomlTable) -> None:
        if collector.score not in known:
            table.wrong("score", f"unknown value {collector.score!r}{nearest(collector.score, known)}")
        _check_shadow_score(collector, table, known)
        _check_source(collector, table)
        if "stat_format" in table.values and collector.stat_file is None:
            table.wrong("stat_format", "has no effect without stat_file, the path of the file")

    return read_section(root, "collector", CollectorConfig, check)


def _check_shadow_score(collector: CollectorConfig, table: TomlTable, known: Iterable[str]) -> None:
    name = collector.shadow_score
    others = [score for score in known if score != collector.score]
    if name and name == collector.score:
        table.wrong("shadow_score", f"{name!r} is already the score in use; choose another score")
    elif name and name not in others:
        table.wrong("shadow_score", f"unknown score {name!r}{nearest(name, others)}")


def _check_source(collector: CollectorConfig, table: TomlTable) -> None:
    if collector.connect:
        _check_connect(collector, table)
        for key in ("listen",) if collector.follows_bus else ("listen", "key_file"):
            if key in table.values:
                table.wrong(
                    key, "must not be set together with connect, because the followed collector receives the reports"
                )
        if collector.adapt:
            table.wrong(
                "adapt", "must not be set together with connect, because the followed collector computes the scores"
            )
    elif collector.connect_token_file:
        table.wrong("connect_token_file", "has no effect without connect, the URL of the collector to follow")
    elif not collector.listen:
        table.wrong("listen", "must contain at least one address at which to receive reports")


def _check_connect(collector: CollectorConfig, table: TomlTable) -> None:
    if collector.follows_bus:
        if not collector.key_file:
            table.wrong("connect", 'with "bus", key_file must also be set, because only signed messages are accepted')
        if collector.connect_token_file:
            table.wrong("connect_token_file", 'has no effect with connect = "bus"; [bus] contains the credentials')
        return
    parts = urlsplit(collector.connect)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        how = 'write http://HOST:PORT, or "bus" to follow the collectors on the bus'
        table.wrong("connect", f"must be the URL of a collector, not {collector.connect!r}; {how}")
