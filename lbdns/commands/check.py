"""``lbdns check``: read a configuration with all it names, and say what is in it or everything that is wrong."""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from lbdns import names
from lbdns.commands.options import config_option
from lbdns.config import Config, load_config
from lbdns.errors import ConfigError
from lbdns.farm import Farm, Pool, load_farm
from lbdns.keys import KeyFile, read_key_file
from lbdns.zonefile import Zone


@dataclass(frozen=True, slots=True)
class Checked:
    """A configuration that can be served, with its key file if it names one."""

    farm: Farm
    keys: KeyFile | None
    warnings: tuple[str, ...]


@click.command(
    epilog="Exit status: 0 when it can be served, 2 when not, with every error as FILE:LINE: where: what.",
)
@config_option
def check(config: Path) -> None:
    """Read the configuration and say what is in it, or everything that is wrong with it.

    Reads the zone files and the key file too; opens no port and asks no other machine.

    \b
    Examples:
      lbdns check
      lbdns check -c zones/lbdns.toml
    """
    for line in summary(read_all(config)):
        click.echo(line)


def read_all(path: Path) -> Checked:
    """Read a configuration, its zones and its key file. Raises ConfigError with every error found in them."""
    config = load_config(path)
    findings: list[str] = []
    warnings: list[str] = []
    keys: KeyFile | None = None
    farm: Farm | None = None
    try:
        farm = load_farm(path)
        warnings += farm.warnings
    except ConfigError as error:
        findings += error.findings
    if config.collector.key_file:
        try:
            keys, about_keys = read_key_file(config.collector.key_file)
            warnings += about_keys
            if not keys.masters:
                findings.append(
                    f"{config.collector.key_file}: key file: holds no master key, so no report could be checked. "
                    "'lbdns keygen' prints one"
                )
        except ConfigError as error:
            findings += error.findings
    if findings or farm is None:
        raise ConfigError(*findings)
    return Checked(farm, keys, (*warnings, *_about_this_machine(config)))


def _about_this_machine(config: Config) -> Iterator[str]:
    """What is no error of the file, but would be one of ``lbdns serve`` here."""
    if config.server.user:
        try:
            pwd.getpwnam(config.server.user)
        except KeyError:
            yield f"{config.path}: [server] user: no user {config.server.user!r} here, so it won't start here"


def summary(checked: Checked) -> Iterator[str]:
    """What a configuration serves, line by line."""
    config = checked.farm.config
    yield f"{config.path}: good"
    for zone in checked.farm.zones.values():
        yield _about_zone(zone, config)
    for pool in checked.farm.pools:
        yield from _about_pool(pool)
    yield f"DNS on {', '.join(map(str, config.server.listen))}"
    yield _about_reports(checked)
    yield f"HTTP on {config.web}" if config.web else "HTTP: off"
    if checked.warnings:
        yield f"warnings: {len(checked.warnings)}"
        yield from (f"  {warning}" for warning in checked.warnings)


def _about_zone(zone: Zone, config: Config) -> str:
    records = sum(len(rrset.rdatas) for node in zone.nodes.values() for rrset in node.values())
    file = next(configured.file for configured in config.zones if configured.name == zone.name)
    return f"zone {zone.name or '.'}: serial {zone.serial}, {len(zone.nodes)} names, {records} records, from {file}"


def _about_pool(pool: Pool) -> Iterator[str]:
    config = pool.config
    yield f"pool {pool.name} in zone {config.zone or '.'}: TTL {config.ttl}, answers as {config.answer}"
    width = max(len(text) for text in (*map(names.to_text, pool.owners), *(m.full_name for m in pool.members)))
    for owner, policy in pool.owners.items():
        yield f"  name    {names.to_text(owner):<{width}}  {policy}"
    for member in pool.members:
        yield f"  member  {member.full_name:<{width}}  {' '.join(member.addresses)}"


def _about_reports(checked: Checked) -> str:
    collector = checked.farm.config.collector
    if collector.connect:
        return f"reports: followed from {collector.connect}"
    where = f"reports on {', '.join(map(str, collector.listen))}, score {collector.score}"
    if checked.keys is None:
        return f"{where}; no key file: a report is believed if it comes from the member's own address"
    count = len(checked.keys.masters)
    return f"{where}; signed, {count} master {'key' if count == 1 else 'keys'} in {collector.key_file}"
