"""The farm: a configuration combined with its zones, after all names in the configuration have been looked up.

A farm is built completely, or an error is raised.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lbdns.config import Config, PoolConfig
from lbdns.config.toml_reader import TomlPlace, TomlSource
from lbdns.model.pool_sites import PoolSites, order_faults, pool_sites
from lbdns.model.site_networks import SiteNetworks, build_site_networks
from lbdns.text.counts import counted
from lbdns.text.suggestions import suggestion
from lbdns.zones import names
from lbdns.zones.master_file import AAAA, A, Zone
from lbdns_shared.errors import ConfigError

NS, CNAME, DNAME = 2, 5, 39  # record types that refer to another name


@dataclass(frozen=True, slots=True)
class Member:
    """One web server in a pool."""

    name: str  # relative to the zone, as in reports and on pages
    full_name: str  # lower case, without the final dot
    owner: bytes  # wire form, lower case
    addresses: tuple[str, ...]  # A, then AAAA, as text
    agentless: bool = False  # sends no reports: only the pool's check watches it
    joined: bool = False  # has joined by reporting, so the configuration does not list it


@dataclass(frozen=True, slots=True)
class Pool:
    """The web servers of one service, and the owner names that clients look up."""

    config: PoolConfig
    zone: Zone
    members: tuple[Member, ...]
    owners: Mapping[bytes, str]  # owner name in wire form -> policy
    sites: PoolSites | None = None  # None: the pool has no sites
    backup_members: tuple[Member, ...] = ()  # of the pool that the key ``backup`` names
    #: The members that answers may name: the pool's own members, then those of its backup
    selectable: tuple[Member, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "selectable", (*self.members, *self.backup_members))

    @property
    def name(self) -> str:
        return self.config.name


@dataclass(frozen=True, slots=True)
class ReportingHost:
    """A host that may send reports, with its permitted source addresses and the members that its reports describe."""

    members: tuple[str, ...]  # full names
    addresses: tuple[str, ...]  # a set would take as much memory as all other data of the host
    joined: bool = False  # has joined by reporting: its addresses are those that its reports state


@dataclass(frozen=True, slots=True)
class Farm:
    """A configuration with its zones, pools and reporting hosts. A farm is immutable; a reload builds a new farm."""

    config: Config
    zones: Mapping[bytes, Zone]  # by origin
    pools: tuple[Pool, ...]
    hosts: Mapping[str, ReportingHost]  # by the host name in a report; without members that have no agent
    warnings: tuple[str, ...]

    @property
    def agentless(self) -> frozenset[str]:
        """Return the full names of the members without an agent."""
        return frozenset(member.full_name for pool in self.pools for member in pool.members if member.agentless)

    @property
    def size(self) -> str:
        """Return the number of zones and pools as text for messages, such as ``1 zone, 2 pools``."""
        return f"{counted(len(self.zones), 'zone')}, {counted(len(self.pools), 'pool')}"


def build_farm(config: Config, zones: Iterable[Zone], networks: SiteNetworks | None = None) -> Farm:
    """Build a farm from a configuration and its zones. Raises ConfigError with all errors found.

    ``networks`` maps clients to their orders of sites; if it is None, all clients have the default order.

    If an error has already been found in a pool's table, in its zone's table or in the zone file, the pool is skipped,
    because further errors could be consequences of that error.
    """
    source = config.source or TomlSource(config.path)
    networks = networks or build_site_networks({}, config.sites.order)
    has_faulty_zone = any(header == "zone" for header, _ in source.faulty)
    configured = {zone.name for zone in config.zones}
    by_name = {zone.name: zone for zone in zones}
    findings: list[str] = []
    pools: list[Pool] = []
    for index, pool in enumerate(config.pools):
        if ("pool", index) in source.faulty:
            continue
        place = _PoolPlace(source, index, pool.name)
        zone = by_name.get(pool.zone)
        if zone is None:
            if pool.zone not in configured and not has_faulty_zone:
                known = ", ".join(sorted(configured)) or "none"
                near = suggestion(pool.zone, configured) or f"; configured zones: {known}"
                findings.append(place.error("zone", f"there is no [[zone]] {pool.zone!r}{near}"))
            continue
        too_long = [place.error(key, what, word) for key, word, what in _too_long(pool, zone)]
        if too_long:
            findings.extend(too_long)
            continue
        agentless = frozenset(pool.agentless)
        members = tuple(_member(name, name in agentless, zone, place, findings) for name in pool.members)
        owners = {_owner(name, zone): policy for name, policy in pool.names.items()}
        found = Pool(pool, zone, members, owners, pool_sites(pool, networks))
        findings.extend(place.error("sites", text) for text in order_faults(found.sites))
        findings.extend(place.error("names", text) for text in _conflicts(found, pools))
        findings.extend(place.error("agentless", text) for text in _agent_conflicts(found, pools))
        findings.extend(place.error("join", text) for text in _join_faults(found, config))
        pools.append(found)
    findings.extend(_backup_faults(config, pools, source))
    if findings:
        raise ConfigError(*findings)
    pools = list(with_backups(pools))
    hosts, warnings = reporting_hosts(config, pools)
    warnings = [*(text for zone in by_name.values() for text in zone.warnings), *warnings]
    warnings = [*(text for key in config.keys for text in key.warnings), *warnings]
    return Farm(config, {zone.origin: zone for zone in by_name.values()}, tuple(pools), hosts, tuple(warnings))


@dataclass(frozen=True, slots=True)
class _PoolPlace:
    """The location of a pool in the configuration file."""

    source: TomlSource
    index: int
    name: str

    def error(self, key: str, what: str, word: str = "") -> str:
        """Return an error message about the pool's ``key``, or about ``word`` in the key's value."""
        return self.source.error(TomlPlace("pool", self.index, key, f"pool {self.name}"), what, word)


def _owner(name: str, zone: Zone) -> bytes:
    return zone.origin if name == "@" else names.from_text(f"{name}.{zone.name}")


def _too_long(pool: PoolConfig, zone: Zone) -> Iterable[tuple[str, str, str]]:
    """Yield the key, the name and an error for each full name that exceeds 255 octets (RFC 1035 section 2.3.4)."""
    for key, texts in (("members", pool.members), ("names", pool.names)):
        for text in texts:
            try:
                _owner(text, zone)
            except ValueError:
                yield key, text, f"{text!r} is too long for a name in zone {zone.name}"


def _member(name: str, agentless: bool, zone: Zone, place: _PoolPlace, findings: list[str]) -> Member:
    owner = _owner(name, zone)
    node = zone.nodes.get(owner, {})
    addresses = tuple(
        str(ipaddress.ip_address(rdata)) for rtype in (A, AAAA) if rtype in node for rdata in node[rtype].rdatas
    )
    what = ""
    if CNAME in node:
        what = f"{name!r} is an alias in zone {zone.name}; use the host's own name"
    elif not addresses:
        what = f"{name!r} has no address in zone {zone.name}; add an A or AAAA record{_similar_host(name, zone)}"
    elif why := why_not_ours(owner, zone):
        what = f"{name!r} {why}"
    if what:
        findings.append(place.error("members", what, name))
    return Member(name, f"{name}.{zone.name}" if zone.name else name, owner, addresses, agentless)


def _similar_host(name: str, zone: Zone) -> str:
    """Return a suggestion of a similar host in the zone, for the end of an error message, or an empty string."""
    hosts = (names.to_text(owner) for owner, node in zone.nodes.items() if A in node or AAAA in node)
    return suggestion(name, [host.removesuffix(f".{zone.name}") for host in hosts])


def _conflicts(pool: Pool, others: Iterable[Pool]) -> Iterable[str]:
    """Yield an error for each owner name of a pool that conflicts with another pool or with records in its zone."""
    for owner in pool.owners:
        text = names.to_text(owner)
        for other in others:
            if owner in other.owners:
                yield f"{text} is already a name of pool {other.name}"
        node = pool.zone.nodes.get(owner, {})
        at_name = pool.config.answer == "address" or owner == pool.zone.origin
        taken = {A, AAAA, CNAME} & set(node) if at_name else set(node)
        if taken:
            yield f"{text} already has records in the zone file; remove them or give the pool another name"
        if why := why_not_ours(owner, pool.zone):
            yield f"{text} {why}"


def _agent_conflicts(pool: Pool, others: Iterable[Pool]) -> Iterable[str]:
    """Yield an error for each member that has an agent in one pool but not in another."""
    mine = {member.full_name: member.agentless for member in pool.members}
    for other in others:
        for member in other.members:
            if mine.get(member.full_name, member.agentless) != member.agentless:
                yield (
                    f"{member.name!r} has an agent in only one of the pools {other.name} and {pool.name}; list the "
                    "member under agentless in both pools or in neither"
                )


def _join_faults(pool: Pool, config: Config) -> Iterable[str]:
    """Yield an error if hosts may join a pool, but nothing could verify their reports."""
    collector = config.collector
    if pool.config.join and not collector.key_file and not collector.connect:
        yield (
            "hosts join only with signed reports, so [collector] key_file must be set; run 'lbdns keygen' to generate "
            "a key"
        )


def _backup_faults(config: Config, pools: Sequence[Pool], source: TomlSource) -> Iterable[str]:
    """Yield an error for each pool that cannot use the pool named by its key ``backup``."""
    by_name = {pool.name: pool for pool in pools}
    for index, configured in enumerate(config.pools):
        pool, backup = by_name.get(configured.name), by_name.get(configured.backup)
        if pool is None or backup is None:
            continue  # an unknown name was found when the table was read
        place = _PoolPlace(source, index, pool.name)
        shared = {member.full_name for member in pool.members} & {member.full_name for member in backup.members}
        if backup.zone is not pool.zone:
            what = f"pool {backup.name} is in zone {backup.config.zone}, but a backup must be in the same zone"
            yield place.error("backup", f"{what} ({pool.config.zone})")
        elif shared:
            name = min(shared)
            yield place.error(
                "backup", f"{name} is a member of both pools; remove it from {pool.name} or {backup.name}"
            )


def with_backups(pools: Sequence[Pool]) -> tuple[Pool, ...]:
    """Return ``pools``, each with the current members of its backup."""
    members = {pool.name: pool.members for pool in pools}
    return tuple(
        replace(pool, backup_members=members.get(pool.config.backup, ())) if pool.config.backup else pool
        for pool in pools
    )


def why_not_ours(owner: bytes, zone: Zone) -> str:
    """Return the reason why the zone is not authoritative for ``owner``, or an empty string if it is authoritative."""
    for above in names.suffixes(owner):
        node = zone.nodes.get(above, {})
        if NS in node and above != zone.origin:
            return f"lies at or below the delegation of {names.to_text(above)}, so other servers answer for it"
        if DNAME in node and above != owner:
            return f"lies below the DNAME of {names.to_text(above)}, which redirects it to another name"
        if above == zone.origin:
            break
    return ""


def reporting_hosts(config: Config, pools: Iterable[Pool]) -> tuple[dict[str, ReportingHost], list[str]]:
    """Return two values: the reporting hosts, keyed by short name and by full name, and one warning for each ambiguous
    short name."""
    members = {member.full_name: member for pool in pools for member in pool.members if not member.agentless}
    by_name: dict[str, list[Member]] = {}
    for member in members.values():
        by_name.setdefault(member.name, []).append(member)
    hosts: dict[str, ReportingHost] = {}
    warnings = []
    for name, namesakes in by_name.items():
        if len({member.addresses for member in namesakes}) == 1:
            full_names = tuple(member.full_name for member in namesakes)
            hosts[name] = ReportingHost(full_names, namesakes[0].addresses, namesakes[0].joined)
        else:
            full = " or ".join(member.full_name for member in namesakes)
            warnings.append(
                f"{config.path}: members: {name!r} is a different machine in each zone; "
                f"start each agent with its full name (--name {full}), because reports sent as {name!r} are dropped"
            )
    for full_name, member in members.items():
        short = hosts.get(member.name)
        if short is not None and short.members == (full_name,):
            hosts.setdefault(full_name, short)  # the usual case, in which both names share an object
        else:
            hosts.setdefault(full_name, ReportingHost((full_name,), member.addresses, member.joined))
    return hosts, warnings
