"""Read lbdns.toml into frozen dataclasses. Each section has a module with its keys, defaults and ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lbdns.config.collector_section import CollectorConfig, read_collector
from lbdns.config.cookies_section import CookiesConfig, read_cookies
from lbdns.config.explain_section import ExplainConfig, read_explain
from lbdns.config.forward_section import ForwardConfig, read_forward
from lbdns.config.history_section import HistoryConfig, read_history
from lbdns.config.key_section import KeyConfig, read_keys
from lbdns.config.pool_section import DEFAULT_NAMES, AnswerForm, PoolConfig, read_pools
from lbdns.config.query_log_section import QueryLogConfig, read_query_log
from lbdns.config.rate_limit_section import RateLimitConfig, read_rate_limit
from lbdns.config.score_section import read_scores
from lbdns.config.server_section import ServerConfig, read_server
from lbdns.config.toml_reader import TomlPlace, TomlTable, read_toml
from lbdns.config.web_section import WebConfig, read_web
from lbdns.config.zone_section import NotifyTarget, TransferPermit, ZoneConfig, read_zones
from lbdns.scores.score import Term

__all__ = [
    "DEFAULT_FILE",
    "DEFAULT_NAMES",
    "AnswerForm",
    "CollectorConfig",
    "Config",
    "CookiesConfig",
    "ExplainConfig",
    "ForwardConfig",
    "HistoryConfig",
    "KeyConfig",
    "NotifyTarget",
    "PoolConfig",
    "QueryLogConfig",
    "RateLimitConfig",
    "ServerConfig",
    "Term",
    "TransferPermit",
    "WebConfig",
    "ZoneConfig",
    "load_config",
]  # fmt: skip

DEFAULT_FILE: Final = "/etc/lbdns/lbdns.toml"


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration file, checked."""

    path: Path
    server: ServerConfig
    zones: tuple[ZoneConfig, ...]
    pools: tuple[PoolConfig, ...]
    collector: CollectorConfig
    web: WebConfig = WebConfig()
    scores: Mapping[str, Mapping[str, Term]] = field(default_factory=dict)
    cookies: CookiesConfig = CookiesConfig()
    rate_limit: RateLimitConfig = RateLimitConfig()
    forward: ForwardConfig = ForwardConfig()
    keys: tuple[KeyConfig, ...] = ()
    history: HistoryConfig = HistoryConfig()
    query_log: QueryLogConfig = QueryLogConfig()
    explain: ExplainConfig = ExplainConfig()


def load_config(path: Path) -> Config:
    """Read the configuration at ``path``. Raises ConfigError with every error found in the file."""
    values, findings = read_toml(path)
    root = TomlTable(values, TomlPlace(), findings)
    base = path.resolve().parent
    scores = read_scores(root)
    server = read_server(root, base)
    keys = read_keys(root, base)
    config = Config(
        path=path,
        server=server,
        zones=read_zones(root, base, keys),
        pools=read_pools(root),
        collector=read_collector(root, base, scores),
        web=read_web(root, base),
        scores=scores,
        cookies=read_cookies(root, base),
        rate_limit=read_rate_limit(root),
        forward=read_forward(root, server.listen),
        keys=keys,
        history=read_history(root),
        query_log=read_query_log(root, base),
        explain=read_explain(root),
    )
    root.end()
    findings.raise_if_any()
    return config
