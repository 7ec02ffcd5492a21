"""Reports of the simulated agents: when each agent reports, early reports, alarms, the score, lost reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Final, Protocol

from lbdns.model.snapshot import Reading
from lbdns.scores import SCORES
from lbdns.scores.score import Score
from lbdns_agent.alarm_conditions import ALARM_CHECK_INTERVAL
from lbdns_tools.sim.event_calendar import EventCalendar
from lbdns_tools.sim.simulated_agent import SimulatedAgent
from lbdns_tools.sim.simulated_lookups import SimulatedLookups
from lbdns_tools.sim.simulated_web_server import SimulatedWebServer
from lbdns_tools.sim.simulation_scenario import Scenario

EARLY: Final = 0.1  # of the interval: how soon after the last report an agent may report early


class ReportScorer(Protocol):
    """Scores reports in place of the scenario's score; ``observe`` is called with each report before ``of``."""

    def observe(self, member: str, metrics: Mapping[str, float], now: float) -> None: ...
    def of(self, metrics: Mapping[str, float]) -> int: ...


class SimulatedReports:
    """Takes samples from all agents at their times, scores them and delivers them to the DNS servers.

    ``alive`` says which hosts are up; a dead host sends no reports. ``count`` is the number of reports sent.
    """

    def __init__(
        self,
        scenario: Scenario,
        servers: Sequence[SimulatedWebServer],
        lookups: SimulatedLookups,
        chance: Random,
        scorer: ReportScorer | None,
    ) -> None:
        self._scenario, self._servers, self._lookups, self._chance = scenario, servers, lookups, chance
        self._agents = [SimulatedAgent(server, scenario.alarms) for server in servers]
        self._scorer = scorer
        self._score = scorer or (Score(scenario.terms) if scenario.terms is not None else SCORES[scenario.score])
        self._reported = [0] * len(servers)  # requests at each server when its last report was made
        self.alive = [True] * len(servers)
        self.count = 0

    def schedule(self, calendar: EventCalendar) -> None:
        """Schedule the reports of all agents; each agent begins at a random point of its interval."""
        interval = self._scenario.interval
        for i in range(len(self._servers)):
            begin = self._chance.random() * interval
            calendar.at(begin, partial(self._report_in_time, calendar, i))
            if self._scenario.early:
                calendar.at(begin + EARLY * interval, partial(self._report_early, calendar, i))
            if self._scenario.alarms:
                calendar.at(begin + ALARM_CHECK_INTERVAL, partial(self._check_alarm, calendar, i))

    def _report_in_time(self, calendar: EventCalendar, i: int, now: float) -> None:
        calendar.at(now + self._scenario.interval, partial(self._report_in_time, calendar, i))
        self._report(i, now)

    def _report_early(self, calendar: EventCalendar, i: int, now: float) -> None:
        calendar.at(now + EARLY * self._scenario.interval, partial(self._report_early, calendar, i))
        if abs(self._servers[i].present - self._reported[i]) >= self._scenario.early:
            self._report(i, now)

    def _check_alarm(self, calendar: EventCalendar, i: int, now: float) -> None:
        calendar.at(now + ALARM_CHECK_INTERVAL, partial(self._check_alarm, calendar, i))
        if self.alive[i] and (metrics := self._agents[i].check_alarm()) is not None:
            self._send(i, metrics, now)

    def _report(self, i: int, now: float) -> None:
        if self.alive[i]:
            self._reported[i] = self._servers[i].present
            self._send(i, self._agents[i].sample(now), now)

    def _send(self, i: int, metrics: Mapping[str, float], now: float) -> None:
        self.count += 1
        if self._scorer is not None:
            self._scorer.observe(self._servers[i].spec.name, metrics, now)
        score = self._score.of(metrics)
        reading = Reading(now, self._scenario.interval, score, metrics, alarm=self._agents[i].alarm)
        self._lookups.deliver(i, reading, now, self._scenario.loss, self._chance)
