"""Simulates DNS lookups in virtual time, with the real chooser and plan cursor of lbdns, or with the oracle."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Final

from lbdns.answering.member_selection import PlanCursor
from lbdns.choosing.chooser import Chooser
from lbdns.choosing.light_traffic import LIGHT
from lbdns.choosing.observed_pool import AVERAGE
from lbdns.config.pool_section import MAX_SPEED_GAIN
from lbdns.model.overrides import NO_POOL_OVERRIDES
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.policies.highest_scores import SAME_SCORE
from lbdns_tools.sim.event_calendar import EventCalendar
from lbdns_tools.sim.simulated_checks import SimulatedChecks
from lbdns_tools.sim.simulated_web_server import SimulatedWebServer
from lbdns_tools.sim.simulation_scenario import Scenario

#: Not a policy, but a bound for all policies: selects the shortest expected queue, which only a simulation can know
ORACLE: Final = "oracle"


class SimulatedDnsServer:
    """A simulated DNS server, which makes plans with ``policy``. ``cursor`` selects members. ``servers`` is the number
    of DNS servers."""

    def __init__(
        self,
        members: tuple[str, ...],
        policy: str,
        stale_after: float,
        min_usable: float,
        chance: Random,
        servers: int,
        max_speed_gain: float = MAX_SPEED_GAIN,
    ) -> None:
        self._members, self._policy = members, policy
        self._snapshot = Snapshot(0, {})
        self._chooser = Chooser(members, stale_after, min_usable, chance, servers, max_speed_gain=max_speed_gain)
        self.cursor = PlanCursor(len(members))
        self._plan(0.0)

    @property
    def next_change(self) -> float:
        """The time at which ``update`` must be called even if no report arrives earlier."""
        return self._chooser.next_change

    def reading(self, member: str) -> Reading | None:
        """Return the newest reading of ``member``."""
        return self._snapshot.readings.get(member)

    def receive(self, member: str, reading: Reading, now: float) -> None:
        """Store a report, and make a new plan if it affects planning."""
        self._snapshot = Snapshot(self._snapshot.version + 1, {**self._snapshot.readings, member: reading})
        self.update(now)

    def update(self, now: float) -> None:
        """Make a new plan if the current plan is outdated because of new reports or the passage of time."""
        if self._chooser.observe(self._snapshot, NO_POOL_OVERRIDES, now):
            self._plan(now)

    def is_highest(self, member: int) -> bool:
        """Return whether ``member`` is a candidate and no other candidate has a clearly higher score."""
        readings = [self._snapshot.readings.get(name) for name in self._members]
        scores = {i: (r.score or 0) if (r := readings[i]) else 0 for i in self._chooser.liveness.candidates}
        return member in scores and scores[member] >= max(scores.values()) - SAME_SCORE

    def _plan(self, now: float) -> None:
        plan = self._chooser.plan(self._policy, self.cursor.selections(), now)
        self.cursor.set_plan(plan, self._chooser.liveness.candidates)


class SimulatedLookups:
    """The simulated lookups, answered according to ``policy``. ``dead_since`` contains the time of each host's failure,
    or infinity for live hosts."""

    def __init__(self, scenario: Scenario, policy: str, seed: int, servers: Sequence[SimulatedWebServer]) -> None:
        self._scenario, self._servers = scenario, servers
        self._is_oracle = policy == ORACLE
        self._chance = Random(f"{seed} dns")
        self._names = tuple(server.spec.name for server in servers)
        planned = "round_robin" if self._is_oracle else policy
        chances = [Random(f"{seed} policy {number}") for number in range(scenario.dns_servers)]
        self._dns = [
            SimulatedDnsServer(
                self._names,
                planned,
                scenario.stale_after,
                scenario.min_usable,
                chance,
                len(chances),
                scenario.max_speed_gain,
            )
            for chance in chances
        ]
        self.dead_since = [math.inf] * len(servers)
        self.answers = self.late_answers = 0
        self.few = self.highest = 0  # answers in light traffic; those that named a member with the highest score
        self.by_member = [0] * len(servers)  # answers since the last full second
        self._recent: deque[float] = deque()  # times of answers

    def look_up(self, now: float) -> int:
        """Answer one lookup, and return the index of the member named in the answer."""
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
        """Deliver a report to each DNS server with probability 1 - ``loss``."""
        for dns in self._dns:
            if not (loss and chance.random() < loss):
                dns.receive(self._names[member], reading, now)

    def schedule(self, calendar: EventCalendar) -> None:
        """Schedule each DNS server's searches for overdue reports. If the pool has a check, also schedule the checks of
        its members."""

        def look(dns: SimulatedDnsServer, now: float) -> None:
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

    def _shortest_queue(self) -> int:
        expected = [server.expected() if server.up else math.inf for server in self._servers]
        return expected.index(min(expected))
