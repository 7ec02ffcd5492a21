"""The table ``FRONT_ENDS`` of all kinds of front ends, and the reader of the section ``[front_end]``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from lbdns.client.control_client import send_command
from lbdns.client.http_client import steer
from lbdns.config.toml_reader import TomlTable
from lbdns_tools.scaler.demand.shared_readers import SharedReaders
from lbdns_tools.scaler.front_ends.front_end import FrontEnd
from lbdns_tools.scaler.front_ends.haproxy_front_end import HaproxyConfig, HaproxyFrontEnd
from lbdns_tools.scaler.front_ends.lbdns_front_end import LbdnsConfig, LbdnsFrontEnd
from lbdns_tools.scaler.front_ends.nginx_front_end import NginxConfig, NginxFrontEnd
from lbdns_tools.scaler.settings.kind_reader import read_kind


@dataclass(frozen=True, slots=True)
class FrontEndKind:
    """A kind of front end: its settings, how to build it, and the matching kind of demand source."""

    settings: Callable[..., Any]
    make: Callable[[Any, SharedReaders], FrontEnd]  # may raise ConfigError
    demand: str


@dataclass(frozen=True, slots=True)
class FrontEndSection:
    """The section ``[front_end]``. ``settings`` is an instance of the class that ``FRONT_ENDS`` lists for ``kind``."""

    kind: str
    settings: Any

    def make_front_end(self, readers: SharedReaders) -> FrontEnd:
        """Return the front end. Raises ConfigError if a token cannot be read."""
        return FRONT_ENDS[self.kind].make(self.settings, readers)


def _lbdns(config: LbdnsConfig, readers: SharedReaders) -> FrontEnd:
    def reader(url: str) -> Any:
        return readers.status(url, config.pool, config.token_file)

    collector = reader(config.url)
    send = partial(send_command, config.control) if config.control else partial(steer, collector.server)
    return LbdnsFrontEnd(collector, [reader(url) for url in config.dns_servers], send)


def _haproxy(config: HaproxyConfig, _: SharedReaders) -> FrontEnd:
    return HaproxyFrontEnd(config)


def _nginx(config: NginxConfig, readers: SharedReaders) -> FrontEnd:
    return NginxFrontEnd(config, readers.page(config.status_url) if config.status_url else None)


FRONT_ENDS: Final[dict[str, FrontEndKind]] = {
    "lbdns": FrontEndKind(LbdnsConfig, _lbdns, "collector"),
    "haproxy": FrontEndKind(HaproxyConfig, _haproxy, "haproxy"),
    "nginx": FrontEndKind(NginxConfig, _nginx, "nginx"),
}


def read_front_end(root: TomlTable) -> FrontEndSection:
    """Return the section ``[front_end]``, and record any errors in it."""
    kinds = {name: kind.settings for name, kind in FRONT_ENDS.items()}
    return FrontEndSection(*read_kind(root.section("front_end"), kinds, "lbdns"))
