"""``lbdns check``: read a configuration and every file that it refers to, and print a summary or all errors."""

from __future__ import annotations

import ipaddress
import os
import pwd
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from lbdns.answering import plane
from lbdns.command_line.common_options import ParsedValue, config_option
from lbdns.config import Config
from lbdns.config.bus_section import BusConfig
from lbdns.model.configuration_files import ConfigurationFiles, read_files
from lbdns.model.farm import Farm, Pool
from lbdns.model.place_database import PlaceDatabase
from lbdns.model.site_networks import Address
from lbdns.planning.shadow import shadows_of
from lbdns.server.forwarding.forwarder import check_upstreams
from lbdns.server.xdp.interface_checks import unusable_interfaces
from lbdns.server.xdp.kernel_publisher import why_unpublished
from lbdns.text.finding_order import FINDING
from lbdns.text.source_excerpt import excerpt
from lbdns.text.times import format_duration
from lbdns.zones import names
from lbdns.zones.master_file import Zone
from lbdns_shared.errors import ConfigError

_SECRET_TABLE: Final = re.compile(r"""\s*\[\[?\s*["']?key["']?\s*[\].]""")


@click.command(
    epilog="Exit status: 0 if the configuration is valid, 2 if not. Each error has the form FILE:LINE: where: what, "
    "and is followed by the source line, in which the error is marked."
)
@config_option
@click.option(
    "--client", "clients", type=ParsedValue(ipaddress.ip_address, "ADDRESS"), multiple=True,
    help="Also print the order in which a client with this address uses the sites of each pool (repeatable).",
)  # fmt: skip
def check(config: Path, clients: tuple[Address, ...]) -> None:
    """Check the configuration. If the configuration is valid, print a summary; otherwise, print all errors.

    The command reads the configuration and all files that it names. The command opens no ports and contacts no other
    machine.

    \b
    Examples:
      lbdns check
      lbdns check -c zones/lbdns.toml
      lbdns check --client 198.51.100.7
    """
    try:
        files = read_files(config)
    except ConfigError as error:
        raise ConfigError(*with_excerpts(error.findings, config)) from None
    for line in summary(files):
        click.echo(line)
    for client in clients:
        for line in about_client(client, files.farm):
            click.echo(line)


def with_excerpts(findings: Iterable[str], path: Path) -> Iterator[str]:
    """Yield the error messages, each followed by its source line with the error marked.

    The output may end up in a log, so only files that all users can read are quoted: master files, and the
    configuration at ``path``.
    """
    lines_of: dict[str, list[str]] = {}
    for finding in findings:
        yield finding
        match = FINDING.match(finding)
        if match is None or not (match["file"] == str(path) or match["what"].startswith("zone ")):
            continue
        if match["file"] not in lines_of:
            lines_of[match["file"]] = _public_lines(Path(match["file"]))
        number, lines = int(match["line"]), lines_of[match["file"]]
        if number <= len(lines) and (quoted := excerpt(number, lines[number - 1], match["what"])):
            yield quoted


def _public_lines(path: Path) -> list[str]:
    """Return the lines of a file that all users can read, or an empty list for any other file. The lines of [[key]]
    tables are replaced with empty lines.

    Only the mode of the file itself counts, not the modes of its parent directories.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not (stat.S_ISREG(mode) and mode & stat.S_IROTH):
                return []
            lines = file.read().splitlines()
    except OSError:
        return []
    is_secret = False
    for at, line in enumerate(lines):
        if line.lstrip().startswith("["):
            is_secret = bool(_SECRET_TABLE.match(line))
        if is_secret:
            lines[at] = ""
    return lines


def _about_this_machine(config: Config) -> Iterator[str]:
    """Yield the problems with this machine that prevent ``lbdns serve`` from starting.

    Problems with the configuration files are not included.
    """
    if config.server.user:
        try:
            pwd.getpwnam(config.server.user)
        except KeyError:
            yield f"{config.path}: [server] user: unknown user {config.server.user!r}, so the server will not start"
    if config.server.plane == "native" and not plane.AVAILABLE:
        why = plane.why_not_native(config.server.plane)
        yield f"{config.path}: [server] plane: {why}, so the server will not start"
    try:
        check_upstreams(config)
    except ConfigError as error:
        yield from (f"{finding}, so the server will not start" for finding in error.findings)
    for name, why in unusable_interfaces(config).items():
        yield f"{config.path}: [server] xdp: {name}: {why}, so the sockets answer instead"


def summary(files: ConfigurationFiles) -> Iterator[str]:
    """Yield the lines of the summary: zones, pools, addresses, reports and warnings."""
    farm = files.farm
    config = farm.config
    yield f"{config.path}: good"
    for zone in farm.zones.values():
        yield _about_zone(zone, config)
    for pool in farm.pools:
        yield from _about_pool(pool)
        for tried in shadows_of(pool.config, config.collector):
            score = f" by score {tried.score}" if tried.score else ""
            yield f"  shadow  of {tried.live}: {tried.policy}{score}"
    yield from _about_places(farm)
    others = f", one of {config.server.dns_servers} servers" if config.server.dns_servers > 1 else ""
    yield f"DNS on {_listed(config.server.listen)}{others}"
    if config.server.plane != "native" or plane.AVAILABLE:
        yield _about_plane(config)
    yield from _about_kernel(farm)
    yield _about_reports(files)
    yield f"{config.web.scheme.upper()} on {config.web.listen}" if config.web.listen else "HTTP: off"
    if config.forward.upstream:
        yield f"forwarding to {_listed(config.forward.upstream)} for {_listed(config.forward.allow)}"
    warnings = [*farm.warnings, *files.warnings, *files.http_warnings, *_about_this_machine(config)]
    if warnings:
        yield f"warnings: {len(warnings)}"
        yield from (f"  {warning}" for warning in warnings)


def _about_zone(zone: Zone, config: Config) -> str:
    records = sum(len(rrset.rdatas) for node in zone.nodes.values() for rrset in node.values())
    configured = next(configured for configured in config.zones if configured.name == zone.name)
    content = f"serial {zone.serial}, {len(zone.nodes)} names, {records} records, from {configured.file}"
    return f"zone {zone.name or '.'}: {content}{'; secondaries may transfer it' if configured.transfer else ''}"


def _about_pool(pool: Pool) -> Iterator[str]:
    config = pool.config
    yield f'pool {pool.name} in zone {config.zone or "."}: TTL {config.ttl}, answer = "{config.answer}"'
    width = max(len(text) for text in (*map(names.to_text, pool.owners), *(m.full_name for m in pool.members)))
    for owner, policy in pool.owners.items():
        yield f"  name    {names.to_text(owner):<{width}}  {policy}"
    for member in pool.members:
        yield f"  member  {member.full_name:<{width}}  {' '.join(member.addresses)}"
    if pool.sites:
        for site, members in pool.sites.members.items():
            yield f"  site    {site}: {_listed(pool.members[i].name for i in members)}"
        yield f"  orders  {'; '.join(_listed(order) for order in pool.sites.orders)}"
    if config.backup:
        yield f"  backup  {config.backup}"
    if join := config.join:
        hosts = f"hosts {', '.join(join.names)} from {_listed(join.networks)}"
        yield f"  join    {hosts}, at most {join.max}; they leave after {format_duration(join.leave_after)} of silence"


def _about_places(farm: Farm) -> Iterator[str]:
    """Yield a line about the database of places, if a pool uses it."""
    places = next((pool.sites.networks.places for pool in farm.pools if pool.sites), None)
    if isinstance(places, PlaceDatabase):
        yield f"places of clients: {places.kind} of {places.built:%Y-%m-%d}, from {farm.config.sites.database}"


def about_client(client: Address, farm: Farm) -> Iterator[str]:
    """Yield a line for each pool with sites: the order in which ``client`` uses them, and the scope of its answers."""
    for pool in farm.pools:
        if pool.sites:
            found = pool.sites.networks.match(client)
            whole = ipaddress.ip_network((client, found.scope), strict=False)
            yield f"client {client}: pool {pool.name}: {_listed(found.order)}, like all clients in {whole}"


def _about_plane(config: Config) -> str:
    why = plane.why_not_native(config.server.plane)
    return f"plane: Python, because {why}" if why else "plane: native"


def _about_kernel(farm: Farm) -> Iterator[str]:
    unusable = unusable_interfaces(farm.config)
    if usable := [name for name in farm.config.server.xdp if name not in unusable]:
        yield f"in the kernel on {_listed(usable)}: common queries"
        for pool in farm.pools:
            if why := why_unpublished(pool):
                yield f"  not for pool {pool.name}: {why}"


def _about_reports(files: ConfigurationFiles) -> str:
    collector = files.farm.config.collector
    if collector.follows_bus:
        return "reports: from the collectors on the bus"
    if collector.connect:
        return f"reports: from the collector at {collector.connect}"
    where = f"reports: on {_listed(collector.listen)}{_on_bus(files.farm.config.bus)}, score {collector.score}"
    if collector.key_file is None:
        return f"{where}; no key file: reports must come from the member's own address"
    count = len(files.report_keys)
    return f"{where}; signed, {count} master {'key' if count == 1 else 'keys'} in {collector.key_file}"


def _on_bus(bus: BusConfig) -> str:
    """Return which reports also arrive over a bus."""
    if not bus.url:
        return ""
    return f", and on the bus those of {_listed(bus.pools)}" if bus.pools else ", and on the bus"


def _listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
