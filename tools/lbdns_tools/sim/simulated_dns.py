"""Simulates DNS lookups in virtual time, by simulated DNS servers or with the oracle."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from functools import partial
from random import Random
from statistics import mean
from typing import Final

from lbdns.choosing.light_traffic import LIGHT
from lbdns.choosing.observed_pool import AVERAGE
from lbdns.model.snapshot import Reading
from lbdns_tools.sim.event_calendar import EventCalendar
from lbdns_tools.sim.simulated_checks import SimulatedChecks
from lbdns_tools.sim.simulated_dns_servers import (
    BackupDnsServer,
    NearestDnsServer,
    PoolSettings,
    SimulatedDns,
    SimulatedDnsServer,
    SiteDnsServer,
)
from lbdns_tools.sim.simulated_requests import ALL_WORKLOADS
from lbdns_tools.sim.simulated_web_server import SimulatedWebServer
from lbdns_tools.sim.simulation_scenario import Scenario

#: Not a policy, but a bound for all policies: selects the shortest expected queue, which only a simulation can know
ORACLE: Final = "oracle"


#: Ways to use the sites or the backup of a farm other than lbdns's own, written after a policy, as in ``best:nearest``
NEAREST, ALONE, ANYWHERE = "nearest", "alone", "anywhere"
RULES: Final = (NEAREST, ALONE, ANYWHERE)


def split_rule(policy: str) -> tuple[str, str]:
    """Split a policy such as ``best:nearest`` into the policy and the rule for sites or the backup, which is empty for
    lbdns's own rule."""
    name, _, rule = policy.partition(":")
    return name, rule


class SimulatedLookups:
    """The simulated lookups, answered according to ``policy``. ``dead_since`` contains the time of each host's failure,
    or infinity for live hosts."""

    def __init__(self, scenario: Scenario, policy: str, seed: int, servers: Sequence[SimulatedWebServer]) -> None:
        self._scenario, self._servers = scenario, servers
        self._is_oracle = policy == ORACLE
        self._origin_of = [scenario.sites.index(server.site) if scenario.sites else 0 for server in scenario.servers]
        self._mean = ALL_WORKLOADS[scenario.workload].mean
        self._chance = Random(f"{seed} dns")
        self._names = tuple(server.spec.name for server in servers)
        planned = "round_robin:anywhere" if self._is_oracle else policy
        chances = [Random(f"{seed} policy {number}") for number in range(scenario.dns_servers)]
        self._dns = [self._dns_server(planned, chance) for chance in chances]
        self.dead_since = [math.inf] * len(servers)
        self.answers = self.late_answers = 0
        self.few = self.highest = 0  # answers in light traffic; those that named a member with the highest score
        self.by_member = [0] * len(servers)  # answers since the last full second
        self._recent: deque[float] = deque()  # times of answers

    def _dns_server(self, policy: str, chance: Random) -> SimulatedDns:
        scenario, (name, rule) = self._scenario, split_rule(policy)
        if scenario.sites and rule == NEAREST:
            return NearestDnsServer(scenario, name, chance)
        if scenario.sites and not rule:
            return SiteDnsServer(scenario, name, chance)
        if scenario.backup_members and not rule:
            return BackupDnsServer(scenario, name, chance)
        if rule == ALONE:
            own = self._names[: -len(scenario.backup_members)]
            return SimulatedDnsServer(own, name, PoolSettings.of(scenario), chance)
        return SimulatedDnsServer(self._names, name, PoolSettings.of(scenario), chance)

    def look_up(self, now: float, origin: int = 0) -> int:
        """Answer one lookup of a client near the site ``origin``, and return the index of the member named in the
        answer."""
        if self._is_oracle:
            member = self._shortest_queue(origin)
        else:
            dns = self._dns[0] if len(self._dns) == 1 else self._chance.choice(self._dns)
            member = dns.look_up(origin)
            if self._scenario.check_few and self._is_light_traffic(now):
                self.few += 1
                self.highest += dns.is_highest(member)
        self.answers += 1
        self.by_member[member] += 1
        if now > self.dead_since[member] + self._scenario.stale_after * self._scenario.interval:
            self.late_answers += 1
        return member

    def deliver(self, member: int, reading: Reading, now: float, loss: float, chance: Random) -> None:
        """Deliver a report to each DNS server with probability 1 - ``loss``."""
        for dns in self._dns:
            if not (loss and chance.random() < loss):
                dns.receive(self._names[member], reading, now)

    def schedule(self, calendar: EventCalendar) -> None:
        """Schedule each DNS server's searches for overdue reports. If the pool has a check, also schedule the checks of
        its members."""

        def look(dns: SimulatedDns, now: float) -> None:
            if now >= dns.next_change:
                dns.update(now)
            calendar.at(min(max(dns.next_change, now), now + self._scenario.interval), partial(look, dns))

        for dns in self._dns:
            calendar.at(self._scenario.interval, partial(look, dns))
            if self._scenario.check:
                stale_after = self._scenario.stale_after
                checks = SimulatedChecks(self._names, stale_after, dns.reading, self._is_dead, dns.receive)
                checks.schedule(calendar)

    def _is_dead(self, member: int) -> bool:
        return self.dead_since[member] < math.inf

    def _is_light_traffic(self, now: float) -> bool:
        """Return whether traffic has been light for at least one report interval.

        Traffic is light if the average over ten seconds is at most two answers per report interval.
        """
        self._recent.append(now)
        while self._recent[0] <= now - AVERAGE - self._scenario.interval:
            self._recent.popleft()
        return len(self._recent) <= LIGHT * AVERAGE / self._scenario.interval

    def kept(self) -> tuple[float, ...]:
        """Return, for the clients near each site, which share of the answers is decided to name this site's members. If
        the pool has a backup, return the share of the pool's own members instead."""
        count = len(self._scenario.sites) or bool(self._scenario.backup_members)
        return tuple(mean(dns.kept(origin) for dns in self._dns) for origin in range(count))

    def _shortest_queue(self, origin: int) -> int:
        expected = [server.expected() if server.up else math.inf for server in self._servers]
        if self._scenario.sites:
            expected = [
                seconds * self._mean + self._scenario.delay(origin, site)
                for seconds, site in zip(expected, self._origin_of, strict=True)
            ]
        return expected.index(min(expected))
