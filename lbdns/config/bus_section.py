"""Read ``[bus]``, which lists the NATS servers from which the collector also receives reports.

Without this section, the collector receives reports over UDP only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lbdns.config.collector_section import CollectorConfig
from lbdns.config.pool_section import PoolConfig
from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import distinct, flag, integer, optional_path, read_section, secret_path
from lbdns.text.suggestions import nearest
from lbdns_shared.bus_subject import NO_POOL
from lbdns_shared.bus_url import BusServer, parse_bus_url


@dataclass(frozen=True, slots=True)
class BusConfig:
    """The servers of one bus. If ``url`` is not empty, the collector subscribes to the reports on the bus."""

    url: tuple[BusServer, ...] = distinct(parse_bus_url)
    password_file: Path | None = secret_path()  # the password of the user in the URLs, or a token
    tls_ca: Path | None = optional_path()  # certificates of the authorities to trust (PEM)
    nkey_file: Path | None = secret_path()  # the seed of the nkey that signs, instead of a password
    #: Whether servers share their overrides in a bucket of JetStream. Off by default: NATS servers have no JetStream
    #: unless they are configured so, and a missing permission could not be told from an interruption
    share_overrides: bool = flag(False)
    #: Whether servers share how many answers they have sent. On by default: it costs little, and does nothing alone
    share_answers: bool = flag(True)
    #: The pools whose reports the collector receives, if several collectors share the work; empty: all reports
    pools: tuple[str, ...] = distinct(str)
    override_copies: int = integer(1, 1, 5)  # servers of the bus that store the bucket, if lbdns creates it


def read_bus(root: TomlTable, collector: CollectorConfig, pools: Sequence[PoolConfig]) -> BusConfig:
    """Return the section ``[bus]``, and record any errors in it."""

    def check(bus: BusConfig, table: TomlTable) -> None:
        if not table.values:
            if collector.follows_bus:
                table.wrong("url", 'must list the NATS servers of the bus, because [collector] connect is "bus"')
            return
        if not table.values.get("url"):
            table.wrong("url", 'must list at least one NATS server, such as "nats://192.0.2.5:4222"')
        if bus.password_file and any(server.password for server in bus.url):
            table.wrong("password_file", "must not be set together with a password in a URL")
        if bus.nkey_file and (bus.password_file or any(server.user or server.password for server in bus.url)):
            table.wrong("nkey_file", "must not be set together with password_file, or with credentials in a URL")
        _check_pools(bus, table, [pool.name for pool in pools])
        if bus.pools and collector.connect:
            table.wrong("pools", "must not be set together with [collector] connect, because no reports are received")
        if collector.connect and not collector.follows_bus:
            table.wrong(
                "url",
                "must not be set together with the URL in [collector] connect: the followed collector receives the "
                'reports; to follow the collectors on the bus, write connect = "bus"',
            )
        elif not collector.key_file:
            table.wrong("url", "requires [collector] key_file, because only signed reports are accepted from a bus")

    return read_section(root, "bus", BusConfig, check)


def _check_pools(bus: BusConfig, table: TomlTable, names: Sequence[str]) -> None:
    """Record an error for each of the bus's pools that is not among the ``names`` of all pools."""
    for name in bus.pools:
        if name not in (*names, NO_POOL):
            what = f"there is no [[pool]] {name!r}{nearest(name, names)}"
            table.wrong("pools", f"{what}; {NO_POOL!r} means agents without --pool")
