"""Joined members: hosts that became members of a pool by reporting, and the farm that includes them. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lbdns.model.farm import Farm, Member, Pool, reporting_hosts, why_not_ours, with_backups
from lbdns.zones import names
from lbdns.zones.master_file import AAAA, A, RRset, Zone
from lbdns.zones.zone_records import Node
from lbdns_shared.report import MAX_ADDRESSES, is_host_name


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A host that has joined a pool."""

    pool: str
    name: str  # relative to the pool's zone, in lower case
    addresses: tuple[str, ...]  # in canonical form, sorted: IPv4 before IPv6

    def document(self) -> dict[str, Any]:
        """Return the joined member as plain data, for files and for other processes."""
        return {"pool": self.pool, "name": self.name, "addresses": list(self.addresses)}


def read_joined_member(value: Any) -> JoinedMember:
    """Convert the result of ``JoinedMember.document`` back into a joined member. Raises ValueError if ``value`` is not
    valid."""
    try:
        pool, name, addresses = value["pool"], value["name"], value["addresses"]
    except (TypeError, KeyError) as error:
        raise ValueError(f"not a valid joined member: {error!r}") from None
    if not isinstance(pool, str) or not isinstance(name, str) or not is_host_name(name):
        raise ValueError(f"not a valid joined member: {value!r}")
    if not isinstance(addresses, list) or not all(isinstance(address, str) for address in addresses):
        raise ValueError(f"not a valid joined member: the addresses must be a list of strings in {value!r}")
    return JoinedMember(pool, name, host_addresses(addresses))


def host_addresses(texts: Iterable[str]) -> tuple[str, ...]:
    """Return a host's addresses in canonical form, sorted and without duplicates.

    Raises ValueError if there is no address, if there are more than MAX_ADDRESSES, or if one of them cannot be the
    address of a host.
    """
    found = set()
    for text in texts:
        address = ipaddress.ip_address(text)
        if isinstance(address, ipaddress.IPv6Address):
            address = address.ipv4_mapped or address
            if getattr(address, "scope_id", None):
                raise ValueError(f"{text!r} has a scope, so other hosts cannot use it")
        if address.is_unspecified or address.is_multicast or str(address) == "255.255.255.255":
            raise ValueError(f"{text!r} is not the address of a host")
        found.add(address)
    if not 0 < len(found) <= MAX_ADDRESSES:
        raise ValueError(f"a host must have from 1 to {MAX_ADDRESSES} addresses, not {len(found)}")
    return tuple(str(address) for address in sorted(found, key=lambda a: (a.version, int(a))))


@dataclass(frozen=True, slots=True)
class JoinedMembers:
    """All joined members. The object is immutable: every change returns a new object."""

    items: tuple[JoinedMember, ...] = ()  # sorted by pool and name
    _by_place: Mapping[tuple[str, str], JoinedMember] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_place", {(item.pool, item.name): item for item in self.items})

    def find(self, pool: str, name: str) -> JoinedMember | None:
        """Return the member called ``name`` (relative to the zone) of ``pool``, or None."""
        return self._by_place.get((pool, name))

    def of_pool(self, pool: str) -> list[JoinedMember]:
        return [item for item in self.items if item.pool == pool]

    def changed(self, put: Iterable[JoinedMember] = (), removed: Iterable[JoinedMember] = ()) -> JoinedMembers:
        """Return a copy without ``removed`` and with ``put``, which replaces members with the same pool and name."""
        after = dict(self._by_place)
        for item in removed:
            after.pop((item.pool, item.name), None)
        for item in put:
            after[item.pool, item.name] = item
        return JoinedMembers(tuple(after[place] for place in sorted(after)))


NO_JOINED_MEMBERS: Final = JoinedMembers()


def why_not_joinable(pool: Pool, zone: Zone, pools: Iterable[Pool], name: str) -> str:
    """Return the reason why a host called ``name`` may not join ``pool``, or an empty string if the host may join.

    ``zone`` is the pool's zone without joined members, and ``pools`` are all configured pools. A host may not take a
    name that is already in the zone file or is the name of a pool.
    """
    join = pool.config.join
    if join is None:
        return f"pool {pool.name} has no join setting"
    if not join.permits_name(name):
        return f"{name!r} does not match the names that may join pool {pool.name}"
    try:
        owner = names.from_text(f"{name}.{zone.name}")
    except ValueError:
        return f"{name!r} is too long for a name in zone {zone.name}"
    if owner in zone.nodes:
        return f"{name!r} already has records in the zone file"
    if any(owner in other.owners for other in pools):
        return f"{name!r} is the name of a pool"
    return f"{name!r} {why}" if (why := why_not_ours(owner, zone)) else ""


def with_joined(farm: Farm, joined: JoinedMembers) -> tuple[Farm, list[tuple[JoinedMember, str]]]:
    """Return two values: a copy of ``farm`` that includes ``joined``, and the members that it cannot include, each with
    the reason.

    ``farm`` contains only configured members. Joined members are appended to their pools, sorted by name. Their
    addresses become records of the zone, with the pool's TTL.
    """
    members, new_nodes, refused = _sorted_out(farm, joined)
    return (_extended(farm, members, new_nodes) if members else farm), refused


def refused_members(farm: Farm, joined: JoinedMembers) -> list[JoinedMember]:
    """Return the members of ``joined`` that cannot be added to the configured ``farm``."""
    return [member for member, _ in _sorted_out(farm, joined)[2]]


#: By pool name, the members that fit; by origin, the records of each owner; the members that do not fit, with reasons
_Sorted = tuple[dict[str, list[Member]], dict[bytes, dict[bytes, Node]], list[tuple[JoinedMember, str]]]


def _sorted_out(farm: Farm, joined: JoinedMembers) -> _Sorted:
    refused: list[tuple[JoinedMember, str]] = []
    new_nodes: dict[bytes, dict[bytes, Node]] = {}  # by origin
    members: dict[str, list[Member]] = {}
    by_name = {pool.name: pool for pool in farm.pools}
    for item in joined.items:
        pool = by_name.get(item.pool)
        if pool is None:
            refused.append((item, f"there is no pool {item.pool!r}"))
            continue
        zone = farm.zones[pool.zone.origin]
        why = why_not_joinable(pool, zone, farm.pools, item.name) or _why_not_room(pool, members.get(pool.name, ()))
        owner = b"" if why else names.from_text(f"{item.name}.{zone.name}")
        if owner in new_nodes.get(zone.origin, ()):
            why = f"{item.name!r} has already joined another pool of zone {zone.name}"
        if not why:
            outside = [text for text in item.addresses if not is_permitted(pool, text)]
            why = f"{outside[0]} is not in a network from which hosts may join" if outside else ""
        if why:
            refused.append((item, why))
            continue
        full_name = f"{item.name}.{zone.name}" if zone.name else item.name
        members.setdefault(pool.name, []).append(Member(item.name, full_name, owner, item.addresses, joined=True))
        new_nodes.setdefault(zone.origin, {})[owner] = _node(item.addresses, pool.config.ttl)
    return members, new_nodes, refused


def is_permitted(pool: Pool, address: str) -> bool:
    """Return whether hosts with ``address`` may join ``pool``."""
    join, parsed = pool.config.join, ipaddress.ip_address(address)
    return join is not None and any(
        parsed.version == network.version and parsed in network for network in join.networks
    )


def _why_not_room(pool: Pool, already: Sequence[Member]) -> str:
    assert pool.config.join, "only a pool with the key 'join' can have joined members"
    most = pool.config.join.max
    return f"pool {pool.name} already has {most} joined members, the maximum that join.max permits" * (
        len(already) >= most
    )


def _node(addresses: Iterable[str], ttl: int) -> Node:
    node: dict[int, tuple[bytes, ...]] = {}
    for text in addresses:
        address = ipaddress.ip_address(text)
        rtype = A if address.version == 4 else AAAA
        node[rtype] = (*node.get(rtype, ()), address.packed)
    return {rtype: RRset(ttl, rdatas) for rtype, rdatas in node.items()}


def _extended(
    farm: Farm, members: Mapping[str, Sequence[Member]], new_nodes: Mapping[bytes, Mapping[bytes, Node]]
) -> Farm:
    zones = {
        origin: replace(zone, nodes={**zone.nodes, **new_nodes[origin]}) if origin in new_nodes else zone
        for origin, zone in farm.zones.items()
    }
    pools = with_backups(
        [
            replace(pool, zone=zones[pool.zone.origin], members=(*pool.members, *members.get(pool.name, ())))
            for pool in farm.pools
        ]
    )
    hosts, _ = reporting_hosts(farm.config, pools)
    return replace(farm, zones=zones, pools=pools, hosts=hosts)
