"""lbdns.toml -> frozen dataclasses, one module a section. Every default and range stands there; errors come at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lbdns.config.collector import CollectorConfig, read_collector
from lbdns.config.cookies import CookiesConfig, read_cookies
from lbdns.config.explain import ExplainConfig, read_explain
from lbdns.config.forward import ForwardConfig, read_forward
from lbdns.config.history import HistoryConfig, read_history
from lbdns.config.keys import KeyConfig, read_keys
from lbdns.config.pools import DEFAULT_NAMES, AnswerForm, PoolConfig, read_pools
from lbdns.config.query_log import QueryLogConfig, read_query_log
from lbdns.config.rate_limit import RateLimitConfig, read_rate_limit
from lbdns.config.scores import Term, read_scores
from lbdns.config.server import ServerConfig, read_server
from lbdns.config.web import WebConfig, read_web
from lbdns.config.zones import Permit, Target, ZoneConfig, read_zones
from lbdns.toml_table import Place, Table, read_toml

__all__ = [
    "DEFAULT_FILE", "DEFAULT_NAMES", "AnswerForm", "CollectorConfig", "Config", "CookiesConfig", "ExplainConfig",
    "ForwardConfig", "HistoryConfig", "KeyConfig", "Permit", "PoolConfig", "QueryLogConfig", "RateLimitConfig",
    "ServerConfig", "Target", "Term", "WebConfig", "ZoneConfig", "load_config",
]  # fmt: skip

DEFAULT_FILE: Final = "/etc/lbdns/lbdns.toml"


@dataclass(frozen=True, slots=True)
class Config:
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
    """Read a configuration. Raises ConfigError with every error found in the file."""
    values, findings = read_toml(path)
    root = Table(values, Place(), findings)
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
