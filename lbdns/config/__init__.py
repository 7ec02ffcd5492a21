"""Read the configuration file lbdns.toml into frozen dataclasses.

Each section has its own module, which defines its keys, defaults and ranges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lbdns.config.bus_section import BusConfig, read_bus
from lbdns.config.client_limit_sections import CookiesConfig, ExplainConfig, RateLimitConfig
from lbdns.config.collector_section import CollectorConfig, read_collector
from lbdns.config.forward_section import ForwardConfig, read_forward
from lbdns.config.key_section import KeyConfig, read_keys
from lbdns.config.pool_section import DEFAULT_NAMES, AnswerForm, PoolConfig, read_pools
from lbdns.config.recording_sections import HistoryConfig, QueryLogConfig
from lbdns.config.score_section import read_scores
from lbdns.config.server_section import ServerConfig, check_server
from lbdns.config.sites_section import SitesConfig, read_sites
from lbdns.config.toml_reader import TomlSource, read_toml
from lbdns.config.value_readers import read_section
from lbdns.config.web_section import WebConfig, check_web
from lbdns.config.zone_section import NotifyTarget, TransferPermit, ZoneConfig, read_zones
from lbdns.scores.score import Term
from lbdns_shared.errors import ConfigError

__all__ = [
    "DEFAULT_FILE",
    "DEFAULT_NAMES",
    "AnswerForm",
    "BusConfig",
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
    "SitesConfig",
    "TransferPermit",
    "WebConfig",
    "ZoneConfig",
    "load_config",
    "load_sections",
    "read_config",
]  # fmt: skip

DEFAULT_FILE: Final = "/etc/lbdns/lbdns.toml"


@dataclass(frozen=True, slots=True)
class Config:
    """A complete, validated configuration."""

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
    bus: BusConfig = BusConfig()
    sites: SitesConfig = SitesConfig()
    source: TomlSource | None = field(default=None, compare=False, repr=False)  # locates keys for error messages

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files that a reload reads: this configuration, the zones, keys, certificates, secrets, the table
        of networks and the database of places."""
        web, collector = self.web, self.collector
        optional = (
            *(key.secret_file for key in self.keys),
            collector.key_file, collector.connect_token_file, self.cookies.secret_file,
            self.bus.password_file, self.bus.nkey_file, self.bus.tls_ca, self.sites.networks, self.sites.database,
            web.password_file, web.token_file, web.steer_token_file, web.tls_cert, web.tls_key,
        )  # fmt: skip
        return (self.path, *(zone.file for zone in self.zones), *(path for path in optional if path))


def load_config(path: Path) -> Config:
    """Read the configuration at ``path``. Raises a ConfigError that lists every error in the file."""
    config, findings = read_config(path)
    if findings:
        raise ConfigError(*findings)
    return config


def load_sections(path: Path, *sections: str) -> Config:
    """Read the configuration at ``path``. If one of ``sections`` has an error, raises a ConfigError that lists all
    errors in the file.

    An error in another section does not keep an operator from contacting a running server, for example to reload it. An
    unknown section has the same effect as an error in ``sections``, because its name could be a misspelling of one of
    them.
    """
    config, findings = read_config(path)
    if config.source and {header for header, _ in config.source.faulty}.intersection(("", *sections)):
        raise ConfigError(*findings)
    return config


def _is_missing(path: Path) -> bool:
    """Return True if ``path`` is known not to exist.

    If the check itself fails, return False: reading the file later raises an error that states the reason.
    """
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def read_config(path: Path) -> tuple[Config, list[str]]:
    """Return two values: the configuration at ``path``, and all errors in the file.

    Invalid values are replaced by their defaults. ``Config.source.faulty`` contains the tables with invalid values.
    Raises ConfigError if the file cannot be read or is not valid TOML.
    """
    if _is_missing(path):
        raise ConfigError(f"{path}: there is no such file; specify a configuration with -c FILE or LBDNS_CONFIG")
    root = read_toml(path)
    scores = read_scores(root)
    server = read_section(root, "server", ServerConfig, check_server)
    keys = read_keys(root)
    collector = read_collector(root, scores)
    sites = read_sites(root.section("sites"))
    pools = read_pools(root, sites)
    config = Config(
        path=path,
        server=server,
        zones=read_zones(root, keys),
        pools=pools,
        collector=collector,
        web=read_section(root, "web", WebConfig, check_web),
        scores=scores,
        cookies=read_section(root, "cookies", CookiesConfig),
        rate_limit=read_section(root, "rate_limit", RateLimitConfig),
        forward=read_forward(root, server.listen),
        keys=keys,
        history=read_section(root, "history", HistoryConfig),
        query_log=read_section(root, "query_log", QueryLogConfig),
        explain=read_section(root, "explain", ExplainConfig),
        bus=read_bus(root, collector, pools),
        sites=sites,
        source=root.findings.source,
    )
    root.end()
    return config, root.findings.found
