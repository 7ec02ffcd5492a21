"""The table ``DEMANDS`` of all kinds of demand sources, and the reader of the section ``[demand]``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from lbdns.config.toml_reader import TomlTable
from lbdns_tools.scaler.demand.collector_demand import CollectorDemand, CollectorDemandConfig
from lbdns_tools.scaler.demand.demand_source import DemandSource
from lbdns_tools.scaler.demand.haproxy_demand import HaproxyDemand, HaproxyDemandConfig
from lbdns_tools.scaler.demand.nginx_demand import NginxDemand, NginxDemandConfig
from lbdns_tools.scaler.demand.shared_readers import SharedReaders
from lbdns_tools.scaler.front_ends.front_end_table import FRONT_ENDS, FrontEndSection
from lbdns_tools.scaler.settings.kind_reader import read_kind


@dataclass(frozen=True, slots=True)
class DemandKind:
    """A kind of demand source: its settings, and how to build it."""

    settings: Callable[..., Any]
    make: Callable[[Any, SharedReaders], DemandSource]  # may raise ConfigError


@dataclass(frozen=True, slots=True)
class DemandSection:
    """The section ``[demand]``. ``settings`` is an instance of the class that ``DEMANDS`` lists for ``kind``."""

    kind: str
    settings: Any

    def make_demand(self, readers: SharedReaders) -> DemandSource:
        """Return the demand source. Raises ConfigError if a token cannot be read."""
        return DEMANDS[self.kind].make(self.settings, readers)


def _collector(config: CollectorDemandConfig, readers: SharedReaders) -> DemandSource:
    return CollectorDemand(readers.status(config.url, config.pool, config.token_file))


def _haproxy(config: HaproxyDemandConfig, _: SharedReaders) -> DemandSource:
    return HaproxyDemand(config)


def _nginx(config: NginxDemandConfig, readers: SharedReaders) -> DemandSource:
    return NginxDemand(readers.page(config.status_url))


DEMANDS: Final[dict[str, DemandKind]] = {
    "collector": DemandKind(CollectorDemandConfig, _collector),
    "haproxy": DemandKind(HaproxyDemandConfig, _haproxy),
    "nginx": DemandKind(NginxDemandConfig, _nginx),
}


def read_demand(root: TomlTable, front_end: FrontEndSection) -> DemandSection:
    """Return the section ``[demand]``, and record any errors in it.

    The default kind is the one that matches the front end. For this kind, keys that are missing from the section take
    their values from the front end.
    """
    table = root.section("demand")
    default = FRONT_ENDS[front_end.kind].demand
    kind, settings = read_kind(table, {name: found.settings for name, found in DEMANDS.items()}, default)
    if kind == default:
        names = [field.name for field in fields(settings) if field.name not in table.values]
        shared = {name: value for name in names if (value := getattr(front_end.settings, name, None))}
        settings = replace(settings, **shared)
    return DemandSection(kind, settings)
