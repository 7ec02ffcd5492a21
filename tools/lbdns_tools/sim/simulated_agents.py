"""Simulates agents, including their metrics, alarms, report times and lost reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Final, Protocol

from lbdns.choosing.host_capacity import HostCapacity
from lbdns.model.snapshot import Reading
from lbdns.scores import SCORES
from lbdns.scores.derived_metrics import with_derived_metrics
from lbdns.scores.score import Score
from lbdns_agent.alarm_conditions import ALARM_CHECK_INTERVAL, alarm_reason, parse_alarm_condition
from lbdns_shared.metric_catalogue import CATALOGUE
from lbdns_tools.sim.event_calendar import EventCalendar
from lbdns_tools.sim.simulated_dns import SimulatedLookups
from lbdns_tools.sim.simulated_web_server import IDLE_WORKERS, SimulatedWebServer
from lbdns_tools.sim.simulation_scenario import Scenario

GATEWAY_PING = 1.0  # ms
EARLY: Final = 0.1  # share of the interval after which an agent may report early


class SimulatedAgent:
    """A simulated agent, which samples a web server. The web server also counts the agent's requests for
    server-status."""

    __slots__ = (
        "_conditions", "_cpu", "_metrics", "_requests", "_server", "_status_requests", "_stood_still", "_time", "alarm",
        "reads_status",
    )  # fmt: skip

    def __init__(self, server: SimulatedWebServer, alarms: Sequence[str] = ()) -> None:
        self._server = server
        self._conditions = tuple(parse_alarm_condition(text, CATALOGUE) for text in alarms)
        self._metrics: dict[str, float] = {}
        self.alarm = ""  # why the host is overloaded; "" if it is not
        self.reads_status = True  # whether the server-status page works
        self._requests = self._status_requests = 0
        self._cpu = self._stood_still = self._time = 0.0

    def check_alarm(self) -> Mapping[str, float] | None:
        """If an overload has begun since the last report, return the metrics to report immediately; otherwise, return
        None."""
        if self.alarm or not self._metrics or not self._server.up:
            return None
        metrics = self._metrics | {"listen_queue": float(len(self._server.waiting))}
        self.alarm = alarm_reason(self._conditions, metrics)
        return metrics if self.alarm else None

    def sample(self, now: float) -> Mapping[str, float]:
        """Return the metrics that the agent reports at the time ``now``, and set ``alarm``."""
        self._metrics = self._read(now)
        self.alarm = alarm_reason(self._conditions, self._metrics)
        return self._metrics

    def _read(self, now: float) -> dict[str, float]:
        server = self._server
        server.advance(now)
        cores = server.spec.usable_cores
        seconds = now - self._time
        self._time = now
        used = server.cpu + server.other_cpu
        busy_share = (used - self._cpu) / (cores * seconds) if seconds > 0 else 0.0
        self._cpu = used
        stood_still, self._stood_still = server.stood_still - self._stood_still, server.stood_still
        found = {
            "run_queue": server.busy + server.background,
            "cpu_idle": 100.0 * max(0.0, 1.0 - busy_share),
            "scan_rate": 0.0,
            "gateway_ping": GATEWAY_PING,
            "cpu_count": cores,
        }
        if server.spec.quota and seconds > 0:
            found["cpu_steal"] = 100.0 * min(1.0, stood_still / seconds)
        if not server.up:
            return found  # nothing listens
        found["httpd_cpu_seconds"] = server.cpu
        found["listen_queue"] = float(len(server.waiting))
        if not self.reads_status:
            return found
        self._status_requests += 1
        requests = server.completed + self._status_requests
        found["requests_total"] = float(requests)
        found["busy_workers"] = float(min(server.spec.workers, server.busy + 1))
        found["idle_workers"] = float(min(IDLE_WORKERS, server.spec.workers - found["busy_workers"]))
        if seconds > 0:
            found["requests_per_s"] = (requests - self._requests) / seconds
        self._requests = requests
        return found


class ReportScorer(Protocol):
    """A scorer that replaces the scenario's score. For each report, ``observe`` is called first, and ``of`` then
    returns the report's score."""

    def observe(self, member: str, metrics: Mapping[str, float], now: float) -> None: ...
    def of(self, metrics: Mapping[str, float]) -> int: ...


class SimulatedReports:
    """The reports of all agents, which are sampled, scored and delivered to the DNS servers.

    ``alive`` contains True for each host that is up. Dead hosts send no reports. ``count`` is the number of reports
    that have been sent.
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
        self._capacities = [HostCapacity() for _ in servers]
        self._scorer = scorer
        self._score = scorer or (Score(scenario.terms) if scenario.terms is not None else SCORES[scenario.score])
        self._reported = [0] * len(servers)  # requests at each server when its last report was made
        self.alive = [True] * len(servers)  # a dead host sends no reports
        self.count = 0  # reports sent

    def schedule(self, calendar: EventCalendar) -> None:
        """Schedule the reports of all agents. Each agent starts at a random point in the report interval."""
        interval = self._scenario.interval
        for i in range(len(self._servers)):
            begin = self._chance.random() * interval
            calendar.every(begin, interval, partial(self._report, i))
            if self._scenario.early:
                calendar.every(begin + EARLY * interval, EARLY * interval, partial(self._report_early, i))
            if self._scenario.alarms:
                calendar.every(begin + ALARM_CHECK_INTERVAL, ALARM_CHECK_INTERVAL, partial(self._check_alarm, i))

    def show_status_page(self, i: int, shown: bool, now: float) -> None:
        """Set whether the agent ``i`` can read its web server's server-status page from ``now`` on."""
        self._agents[i].reads_status = shown

    def _report_early(self, i: int, now: float) -> None:
        if abs(self._servers[i].present - self._reported[i]) >= self._scenario.early:
            self._report(i, now)

    def _check_alarm(self, i: int, now: float) -> None:
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
        interval = self._scenario.interval
        metrics = with_derived_metrics(metrics, self._capacities[i].observe(metrics, interval, now), interval)
        score = self._score.of(metrics)
        reading = Reading(now, interval, score, metrics, alarm=self._agents[i].alarm)
        self._lookups.deliver(i, reading, now, self._scenario.loss, self._chance)
