"""Join requests: decides whether a host that is not in the configuration may become a member of a pool. Sans-I/O.

A host requests to join by sending signed reports. The report table checks the signature, the time and the sequence of
a report first. This module then checks the request, and refuses it for the first of these reasons that applies:

    join_pool     the report names no pool that hosts may join, or the host's name fits several pools
    join_name     the host's name does not match the pool's names, or is already used in the zone
    join_address  an address is not in the pool's networks, the datagram comes from none of the host's addresses, or the
                  host changed its addresses a moment ago
    join_full     the pool already has as many joined members as it may have
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from lbdns.model.farm import Farm, Pool
from lbdns.model.joined_members import (
    NO_JOINED_MEMBERS,
    JoinedMember,
    JoinedMembers,
    host_addresses,
    is_permitted,
    refused_members,
    why_not_joinable,
)
from lbdns_shared.errors import ReportError
from lbdns_shared.report import Report

__all__ = ["JOIN_REASONS", "JoinRequests"]

STEADY: Final = 10.0  # s between two changes of a host's addresses, because each change rebuilds the zone's answers
#: In the order of the checks
JOIN_REASONS: Final = ("join_pool", "join_name", "join_address", "join_full")


class JoinRequests:
    """Decides which hosts may join a farm's pools, and keeps their requests until the hosts are part of the farm."""

    def __init__(self, configured: Farm, joined: JoinedMembers = NO_JOINED_MEMBERS) -> None:
        """``configured`` is the farm without joined members; ``joined`` are the currently joined members."""
        self._requested: dict[tuple[str, str], JoinedMember] = {}  # by pool and name
        self._changed_at: dict[tuple[str, str], float] = {}  # by pool and name: when the addresses last changed
        self.use(configured, joined)

    def use(self, configured: Farm, joined: JoinedMembers) -> None:
        """Switch to another configuration or to another set of joined members."""
        self._farm, self.joined = configured, joined  # the joined members in force
        self._pools = [pool for pool in configured.pools if pool.config.join]
        requested = JoinedMembers(tuple(self._requested.values()))
        gone = refused_members(configured, requested)
        self._requested = {
            place: wanted
            for place, wanted in self._requested.items()
            if joined.find(*place) != wanted and wanted not in gone
        }
        self._changed_at = {place: at for place, at in self._changed_at.items() if self._newest(place)}
        zones = {pool.name: pool.config.zone for pool in self._pools}
        self._requested_names = {_full_name(name, zones[pool]) for pool, name in self._requested}

    def may_join(self, host: str) -> bool:
        """Return whether the name in a report matches the names of a pool. The sender is not yet authenticated."""
        return any(join.permits_name(_relative(host, pool)) for pool in self._pools if (join := pool.config.join))

    def judge(self, report: Report, source: str | None, now: float) -> tuple[JoinedMember, str]:
        """Return two values: the member that the sender of an authentic report asks to become, and the member's full
        name.

        ``source`` is the address from which the datagram came, in canonical form, or None if it came over a bus; the
        report must then contain the host's addresses. ``now`` is in monotonic seconds. Raises ReportError with the
        reason for a refusal.
        """
        pool = self._pool(report)
        name = _relative(report.host, pool)
        zone = self._farm.zones[pool.zone.origin]
        if why := why_not_joinable(pool, zone, self._farm.pools, name) or self._why_elsewhere(pool, name):
            raise ReportError("join_name", why)
        try:
            addresses = host_addresses(report.addresses or ((source,) if source else ()))
        except ValueError as error:
            raise ReportError("join_address", str(error)) from None
        for address in addresses:
            if not is_permitted(pool, address):
                raise ReportError("join_address", f"{address} is not in a network from which hosts may join")
        if source is not None and source not in addresses:
            raise ReportError("join_address", f"the datagram comes from {source}, not from {' or '.join(addresses)}")
        wanted = JoinedMember(pool.name, name, addresses)
        self._check_room(pool, name)
        self._check_pace(wanted, now)
        return wanted, _full_name(name, zone.name)

    def request(self, wanted: JoinedMember, now: float) -> None:
        """Store a request that ``judge`` has returned, unless it is already in force. ``now`` is in monotonic
        seconds."""
        place = wanted.pool, wanted.name
        if self._newest(place) != wanted:
            self._changed_at[place] = now
        if self.joined.find(*place) == wanted:
            self._requested.pop(place, None)
        else:
            self._requested[place] = wanted
            zone = next(pool.config.zone for pool in self._pools if pool.name == wanted.pool)
            self._requested_names.add(_full_name(wanted.name, zone))

    def is_requested(self, full_name: str) -> bool:
        """Return whether a host has asked to become the member ``full_name`` and is still waiting."""
        return full_name in self._requested_names

    @property
    def requested(self) -> Collection[JoinedMember]:
        """Return the requests that are not yet in force."""
        return self._requested.values()

    def _newest(self, place: tuple[str, str]) -> JoinedMember | None:
        """Return the pending request for this pool and name. If there is none, return the current member, or None."""
        return self._requested.get(place) or self.joined.find(*place)

    def _check_pace(self, wanted: JoinedMember, now: float) -> None:
        place = wanted.pool, wanted.name
        if self._newest(place) not in (None, wanted) and now - self._changed_at.get(place, -math.inf) < STEADY:
            raise ReportError("join_address", f"{wanted.name} last changed its addresses less than {STEADY:g} s ago")

    def _pool(self, report: Report) -> Pool:
        if report.pool:
            named = [pool for pool in self._pools if pool.name == report.pool]
            if not named:
                raise ReportError("join_pool", f"hosts cannot join pool {report.pool!r}")
            return named[0]
        fitting = [
            pool
            for pool in self._pools
            if (join := pool.config.join) and join.permits_name(_relative(report.host, pool))
        ]
        if len(fitting) != 1:
            raise ReportError(
                "join_pool", "the report must name the pool to join, because the host's name fits several"
            )
        return fitting[0]

    def _why_elsewhere(self, pool: Pool, name: str) -> str:
        """Return an error message if a name has already joined a pool of the same zone other than ``pool``, otherwise
        an empty string."""
        others = [other for other in self._pools if other.zone.origin == pool.zone.origin and other is not pool]
        taken = [
            other for other in others if self.joined.find(other.name, name) or (other.name, name) in self._requested
        ]
        return f"{name!r} has already joined pool {taken[0].name}" if taken else ""

    def _check_room(self, pool: Pool, name: str) -> None:
        assert pool.config.join, "only a pool with the key 'join' accepts join requests"
        if self.joined.find(pool.name, name) or (pool.name, name) in self._requested:
            return
        names = {item.name for item in self.joined.of_pool(pool.name)}
        names |= {name for pool_name, name in self._requested if pool_name == pool.name}
        if len(names) >= pool.config.join.max:
            raise ReportError("join_full", f"pool {pool.name} already has {len(names)} joined members")


def _full_name(name: str, zone: str) -> str:
    return f"{name}.{zone}" if zone else name


def _relative(host: str, pool: Pool) -> str:
    """Return the name in a report relative to the pool's zone."""
    return host.removesuffix(f".{pool.config.zone}") if pool.config.zone else host
