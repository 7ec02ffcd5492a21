"""Simulates DNS servers in virtual time, with the real chooser, site plans and plan cursors of lbdns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from lbdns.answering.member_selection import PlanCursor
from lbdns.answering.pool_cursors import order_cursors
from lbdns.choosing.chooser import Chooser
from lbdns.config.pool_section import MAX_SPEED_GAIN
from lbdns.model.overrides import NO_POOL_OVERRIDES
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.planning.backup_plans import BackupPlans
from lbdns.planning.site_plans import SitePlans
from lbdns.policies.highest_scores import SAME_SCORE
from lbdns_tools.sim.simulation_scenario import Scenario


class SimulatedDns(Protocol):
    """A simulated DNS server. ``origin`` is the number of the site near a client, or 0 if the farm has no sites."""

    @property
    def next_change(self) -> float:
        """The time at which ``update`` must be called even if no report arrives earlier."""

    def reading(self, member: str) -> Reading | None:
        """Return the newest reading of ``member``."""

    def receive(self, member: str, reading: Reading, now: float) -> None:
        """Store a report, and make a new plan if it affects planning."""

    def update(self, now: float) -> None:
        """Make a new plan if the current plan is outdated because of new reports or the passage of time."""

    def look_up(self, origin: int) -> int:
        """Answer a lookup of a client, and return the index of the member named in the answer."""

    def is_highest(self, member: int) -> bool:
        """Return whether ``member`` is a candidate and no other candidate has a clearly higher score."""

    def kept(self, origin: int) -> float:
        """Return which share of the answers to clients near the site ``origin`` is decided to name its members, or the
        pool's own members if it has a backup."""


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """The settings of a simulated pool. ``stale_after`` is in report intervals; ``dns_servers`` is the number of DNS
    servers."""

    stale_after: float
    min_usable: float
    dns_servers: int = 1
    max_speed_gain: float = MAX_SPEED_GAIN

    @classmethod
    def of(cls, scenario: Scenario) -> PoolSettings:
        """Return the settings in ``scenario``."""
        return cls(scenario.stale_after, scenario.min_usable, scenario.dns_servers, scenario.max_speed_gain)


class SimulatedDnsServer:
    """A simulated DNS server, which makes plans with ``policy``. ``cursor`` selects ``members``. ``sites`` contains
    the members of each site, if the pool has sites."""

    def __init__(
        self,
        members: tuple[str, ...],
        policy: str,
        settings: PoolSettings,
        chance: Random,
        sites: Sequence[Sequence[int]] = (),
    ) -> None:
        self._members, self._policy = members, policy
        self._snapshot = Snapshot(0, {})
        self.chooser = Chooser(
            members,
            settings.stale_after,
            settings.min_usable,
            chance,
            settings.dns_servers,
            max_speed_gain=settings.max_speed_gain,
            sites=sites,
        )
        self.cursor = self._new_cursor()
        self._plan(0.0)

    @property
    def next_change(self) -> float:
        return self.chooser.next_change

    def reading(self, member: str) -> Reading | None:
        return self._snapshot.readings.get(member)

    def receive(self, member: str, reading: Reading, now: float) -> None:
        self._snapshot = Snapshot(self._snapshot.version + 1, {**self._snapshot.readings, member: reading})
        self.update(now)

    def update(self, now: float) -> None:
        if self.chooser.observe(self._snapshot, NO_POOL_OVERRIDES, now):
            self._plan(now)

    def look_up(self, origin: int) -> int:
        return self.cursor.next()

    def is_highest(self, member: int) -> bool:
        readings = [self._snapshot.readings.get(name) for name in self._members]
        scores = {i: (r.score or 0) if (r := readings[i]) else 0 for i in self.chooser.liveness.candidates}
        return member in scores and scores[member] >= max(scores.values()) - SAME_SCORE

    def kept(self, origin: int) -> float:
        return 0.0  # neither sites nor a backup play a part

    @property
    def has_usable_members(self) -> bool:
        """Whether a member is usable."""
        return "usable" in self.chooser.liveness.states

    def _new_cursor(self) -> PlanCursor:
        return PlanCursor(len(self._members))

    def _plan(self, now: float) -> None:
        plan = self.chooser.plan(self._policy, self.cursor.selections(), now)
        self.cursor.set_plan(plan, self.chooser.liveness.candidates)


class SiteDnsServer(SimulatedDnsServer):
    """A simulated DNS server for a pool with sites, whose clients get other sites by load, as lbdns does it."""

    def __init__(self, scenario: Scenario, policy: str, chance: Random) -> None:
        members = members_by_site(scenario)
        self._plans = SitePlans(members, site_orders(scenario))
        self._is_outdated = False
        names = tuple(server.name for server in scenario.servers)
        super().__init__(names, policy, PoolSettings.of(scenario), chance, tuple(members.values()))

    @property
    def next_change(self) -> float:
        return min(self.chooser.next_change, self._plans.due_at) if self._is_outdated else self.chooser.next_change

    def update(self, now: float) -> None:
        self._is_outdated |= self.chooser.observe(self._snapshot, NO_POOL_OVERRIDES, now)
        if self._is_outdated and self._plans.is_due(self.chooser, now):
            self._plan(now)

    def look_up(self, origin: int) -> int:
        return order_cursors(self.cursor)[origin].next()

    def kept(self, origin: int) -> float:
        return self._plans.orders[origin].shares[0]

    def _new_cursor(self) -> PlanCursor:
        cursor, *others = (PlanCursor(len(self._members)) for _ in self._plans.orders)
        cursor.others = tuple(others)
        return cursor

    def _plan(self, now: float) -> None:
        self._is_outdated = False
        self._plans.update(self.chooser, now)
        self._plans.end_and_plan(self._policy, self.cursor, self.chooser, now)


class NearestDnsServer:
    """A simulated DNS server that gives each client a member of the nearest site with a usable member, whatever the
    load of the sites is. Each site is a pool of its own."""

    def __init__(self, scenario: Scenario, policy: str, chance: Random) -> None:
        self._members = tuple(members_by_site(scenario).values())
        self._names = tuple(tuple(scenario.servers[i].name for i in members) for members in self._members)
        settings = PoolSettings.of(scenario)
        self._pools = [SimulatedDnsServer(names, policy, settings, chance) for names in self._names]
        self._pool_of = {name: pool for names, pool in zip(self._names, self._pools, strict=True) for name in names}

    @property
    def next_change(self) -> float:
        return min(pool.next_change for pool in self._pools)

    def reading(self, member: str) -> Reading | None:
        return self._pool_of[member].reading(member)

    def receive(self, member: str, reading: Reading, now: float) -> None:
        self._pool_of[member].receive(member, reading, now)

    def update(self, now: float) -> None:
        for pool in self._pools:
            pool.update(now)

    def look_up(self, origin: int) -> int:
        site = self._site(origin)
        return self._members[site][self._pools[site].look_up(origin)]

    def is_highest(self, member: int) -> bool:
        site = next(number for number, members in enumerate(self._members) if member in members)
        return self._pools[site].is_highest(self._members[site].index(member))

    def kept(self, origin: int) -> float:
        return float(self._site(origin) == origin)

    def _site(self, origin: int) -> int:
        order = (*range(origin, len(self._pools)), *range(origin))
        return next((site for site in order if self._pools[site].has_usable_members), origin)


class BackupDnsServer(SimulatedDnsServer):
    """A simulated DNS server for a pool with a backup, to which it spills by load, as lbdns does it."""

    def __init__(self, scenario: Scenario, policy: str, chance: Random) -> None:
        names, settings = tuple(server.name for server in scenario.servers), PoolSettings.of(scenario)
        members = len(names) - len(scenario.backup_members)
        self._backup_names = frozenset(names[members:])
        self._backup = SimulatedDnsServer(names[members:], policy, settings, chance)
        self._plans = BackupPlans("backup", names, members)
        self._size = len(names)
        super().__init__(names[:members], policy, settings, chance)

    @property
    def next_change(self) -> float:
        return min(self.chooser.next_change, self._backup.next_change)

    def reading(self, member: str) -> Reading | None:
        return self._backup.reading(member) if member in self._backup_names else super().reading(member)

    def receive(self, member: str, reading: Reading, now: float) -> None:
        if member not in self._backup_names:
            super().receive(member, reading, now)
            return
        self._backup.receive(member, reading, now)
        self._update(now, is_fresh=True)

    def update(self, now: float) -> None:
        self._backup.update(now)
        self._update(now, is_fresh=False)

    def kept(self, origin: int) -> float:
        return 1 - self._plans.spillover.share

    def _update(self, now: float, is_fresh: bool) -> None:
        """Make a new plan if needed. ``is_fresh`` states whether the backup has a new plan."""
        changed = self.chooser.observe(self._snapshot, NO_POOL_OVERRIDES, now)
        changed |= self._plans.update(self.chooser, self._backup.chooser, now)
        if changed or (is_fresh and self._plans.is_used):
            self._plan(now)

    def _new_cursor(self) -> PlanCursor:
        return PlanCursor(self._size)

    def _plan(self, now: float) -> None:
        self._plans.end_and_plan(self._policy, self.cursor, self.chooser, self._backup.chooser, now)


def members_by_site(scenario: Scenario) -> dict[str, tuple[int, ...]]:
    """Return the indexes of the servers of each site."""
    return {
        site: tuple(i for i, server in enumerate(scenario.servers) if server.site == site) for site in scenario.sites
    }


def site_orders(scenario: Scenario) -> tuple[tuple[str, ...], ...]:
    """Return, for the clients near each site, the order in which they use the sites: the site itself, then those that
    follow it, in a circle."""
    return tuple((*scenario.sites[i:], *scenario.sites[:i]) for i in range(len(scenario.sites)))
