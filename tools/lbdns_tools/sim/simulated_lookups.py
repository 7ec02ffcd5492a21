"""Look-ups of the simulation: one of the DNS servers, or the oracle, selects a member; answers are counted."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Final

from lbdns.choosing.light_traffic import LIGHT
from lbdns.choosing.observed_pool import AVERAGE
from lbdns.model.snapshot import Reading
from lbdns_tools.sim.event_calendar import EventCalendar
from lbdns_tools.sim.simulated_dns_server import SimulatedDnsServer
from lbdns_tools.sim.simulated_web_server import SimulatedWebServer
from lbdns_tools.sim.simulation_scenario import Scenario

#: Not a policy, but the bound for all of them: joins the shortest expected queue, which only a simulation can know
ORACLE: Final = "oracle"


class SimulatedLookups:
    """Answers look-ups by ``policy``. ``dead_since`` holds the time of each host's death; infinity if it is alive."""

    def __init__(self, scenario: Scenario, policy: str, seed: int, servers: Sequence[SimulatedWebServer]) -> None:
        self._scenario, self._servers = scenario, servers
        self._is_oracle = policy == ORACLE
        self._chance = Random(f"{seed} dns")
        self._names = tuple(server.spec.name for server in servers)
        self._dns = [
            SimulatedDnsServer(
                self._names,
                "round_robin" if self._is_oracle else policy,
                scenario.stale_after,
                scenario.min_usable,
                Random(f"{seed} policy {number}"),
                scenario.dns_servers,
            )
            for number in range(scenario.dns_servers)
        ]
        self.dead_since = [math.inf] * len(servers)
        self.answers = self.late_answers = 0
        self.few = self.highest = 0  # answers in light traffic; those that named a member with the highest score
        self.by_member = [0] * len(servers)  # answers since the last full second
        self._recent: deque[float] = deque()  # times of answers

    def look_up(self, now: float) -> int:
        """Return the index of the member that one answer names."""
        if self._is_oracle:
            member = self._shortest_queue()
        else:
            dns = self._dns[0] if len(self._dns) == 1 else self._chance.choice(self._dns)
            member = dns.cursor.next()
            if self._scenario.check_few and self._is_light_traffic(now):
                self.few += 1
                self.highest += dns.is_highest(member)
        self.answers += 1
        self.by_member[member] += 1
        if now > self.dead_since[member] + self._scenario.stale_after * self._scenario.interval:
            self.late_answers += 1
        return member

    def deliver(self, member: int, reading: Reading, now: float, loss: float, chance: Random) -> None:
        """Deliver a report to every DNS server, each with the probability 1 - ``loss``."""
        for dns in self._dns:
            if not (loss and chance.random() < loss):
                dns.receive(self._names[member], reading, now)

    def schedule(self, calendar: EventCalendar) -> None:
        """Schedule the checks with which each DNS server notices that reports stop."""

        def check(dns: SimulatedDnsServer, now: float) -> None:
            if now >= dns.next_change:
                dns.update(now)
            calendar.at(min(max(dns.next_change, now), now + self._scenario.interval), partial(check, dns))

        for dns in self._dns:
            calendar.at(self._scenario.interval, partial(check, dns))

    def _is_light_traffic(self, now: float) -> bool:
        """Whether this answer is one of few: at most two a report interval, averaged over ten seconds, for at
        least an interval."""
        self._recent.append(now)
        while self._recent[0] <= now - AVERAGE - self._scenario.interval:
            self._recent.popleft()
        return len(self._recent) <= LIGHT * AVERAGE / self._scenario.interval

    def _shortest_queue(self) -> int:
        best, least = 0, math.inf
        for i, server in enumerate(self._servers):
            if server.up and (expected := server.expected()) < least:
                best, least = i, expected
        return best
