"""Simulates one scenario with one policy and one seed by processing events in order of virtual time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from random import Random

from lbdns_tools.percentiles import percentile
from lbdns_tools.sim.client_sites import ClientSites, swings
from lbdns_tools.sim.cpu_quota import PERIOD, make_web_server
from lbdns_tools.sim.event_calendar import EventCalendar
from lbdns_tools.sim.simulated_agents import ReportScorer, SimulatedReports
from lbdns_tools.sim.simulated_dns import SimulatedLookups
from lbdns_tools.sim.simulated_requests import (
    ALL_WORKLOADS,
    NO_CLIENT,
    ClosedClients,
    LookUp,
    RequestArrivals,
    RequestFlow,
    through_caches,
)
from lbdns_tools.sim.simulation_results import BackupFigures, FarmMoment, SimulationResult
from lbdns_tools.sim.simulation_scenario import DEADLINE, Outage, Scenario


def simulate(scenario: Scenario, policy: str, seed: int, scorer: ReportScorer | None = None) -> SimulationResult:
    """Simulate ``scenario`` with ``policy``, and return the result. With the same seed, all policies receive the same
    requests. ``scorer``, if specified, replaces the scenario's score.
    """
    return _SimulationRun(scenario, policy, seed, scorer).run()


class _SimulationRun:
    def __init__(self, scenario: Scenario, policy: str, seed: int, scorer: ReportScorer | None) -> None:
        self._scenario, self._policy = scenario, policy
        # Each purpose has its own random numbers, so that policies are compared on the same requests
        arrivals, sizes, self._client_chance, reports = (
            Random(f"{seed} {purpose}") for purpose in ("arrivals", "sizes", "clients", "reports")
        )
        phases = Random(f"{seed} quotas")
        self._servers = [make_web_server(spec, PERIOD * phases.random()) for spec in scenario.servers]
        self._calendar = EventCalendar()
        self._lookups = SimulatedLookups(scenario, policy, seed, self._servers)
        self._reports = SimulatedReports(scenario, self._servers, self._lookups, reports, scorer)
        workload = ALL_WORKLOADS[scenario.workload]
        rate = scenario.rate if scenario.rate is not None else scenario.load * scenario.capacity / workload.mean
        self._size = workload.draw(sizes)
        self._arrivals = RequestArrivals(rate, scenario.arrivals, arrivals)
        self._flow = RequestFlow(scenario, self._servers)
        self._clients = ClientSites(scenario, Random(f"{seed} sites"))
        self._moments: list[FarmMoment] = []

    def run(self) -> SimulationResult:
        """Process all events in chronological order. Among simultaneous events, departures are processed first."""
        self._schedule()
        choose = self._start_requests()
        arrivals, flow, servers = self._arrivals, self._flow, self._servers
        ends, send, respond, origin_of = flow.ends, flow.send, flow.respond, self._clients.draw
        events, size = self._calendar.events, self._size
        end, last = self._scenario.end, self._scenario.end + DEADLINE
        while True:
            arrival = arrivals.next
            departure = min(ends)
            event = events[0][0]
            if departure <= arrival and departure <= event:
                if departure > last:
                    break
                at = ends.index(departure)
                server = servers[at]
                request = server.depart(departure)
                ends[at] = server.next_end
                respond(request, departure, at)
            elif arrival <= event:
                if arrival >= end:
                    arrivals.next = math.inf
                    continue
                arrivals.draw(arrival)
                origin = origin_of()
                send(arrival, choose(arrival, origin), size(), NO_CLIENT, origin)
            else:
                if event > last:
                    break
                self._calendar.run_next()
        return self._result()

    def _start_requests(self) -> LookUp:
        """Start the clients, and return the function that selects a server for each arriving request."""
        clients, look_up = self._scenario.clients, self._lookups.look_up
        if clients.kind == "closed":
            origins = [self._clients.draw() for _ in range(clients.count)]
            self._flow.closed = ClosedClients(
                self._scenario, self._calendar, self._client_chance, self._size, look_up, self._flow.send, origins
            )
            return look_up
        self._arrivals.draw(0.0)
        if clients.kind == "caches":
            return through_caches(clients, look_up, self._client_chance, max(1, len(self._scenario.sites)))
        return look_up

    def _schedule(self) -> None:
        scenario, at = self._scenario, self._calendar.at
        index = {server.name: i for i, server in enumerate(scenario.servers)}
        self._reports.schedule(self._calendar)
        self._lookups.schedule(self._calendar)
        for surge in scenario.surges:
            site = scenario.sites.index(surge.site) if surge.site else None
            at(surge.start, partial(self._multiply_rate, site, surge.factor))
            at(surge.end, partial(self._multiply_rate, site, 1.0))
        for work in scenario.other_work:
            i = index[work.server]
            usual = scenario.servers[i].background
            at(work.start, partial(self._set_background, i, usual + work.tasks))
            at(work.end, partial(self._set_background, i, usual))
        for slowdown in scenario.slowdowns:
            i = index[slowdown.server]
            usual = scenario.servers[i].speed
            at(slowdown.start, partial(self._set_speed, i, slowdown.factor * usual))
            at(slowdown.end, partial(self._set_speed, i, usual))
        for outage, i in self._outages():
            fail, recover = partial(self._fail, i, outage.service_only), partial(self._recover, i)
            if outage.page_only:
                fail, recover = (partial(self._reports.show_status_page, i, shown) for shown in (False, True))
            at(outage.start, fail)
            if outage.end < math.inf:
                at(outage.end, recover)
        self._calendar.every(1.0, 1.0, self._note_moment)

    def _outages(self) -> Iterator[tuple[Outage, int]]:
        """Yield each outage with the index of each server that it affects: the named one, or those of the named
        site."""
        for outage in self._scenario.outages:
            for i, server in enumerate(self._scenario.servers):
                if outage.server in (server.name, server.site):
                    yield outage, i

    def _multiply_rate(self, site: int | None, factor: float, now: float) -> None:
        self._arrivals.multiply_rate(self._clients.multiply(site, factor), now)

    def _set_background(self, i: int, tasks: float, now: float) -> None:
        self._servers[i].set_background(tasks, now)
        self._flow.ends[i] = self._servers[i].next_end

    def _set_speed(self, i: int, speed: float, now: float) -> None:
        self._servers[i].set_speed(speed, now)
        self._flow.ends[i] = self._servers[i].next_end

    def _fail(self, i: int, service_only: bool, now: float) -> None:
        self._reports.alive[i] = service_only
        self._lookups.dead_since[i] = now
        self._flow.fail_server(i, now)

    def _recover(self, i: int, now: float) -> None:
        self._reports.alive[i] = True
        self._lookups.dead_since[i] = math.inf
        self._servers[i].recover(now)

    def _note_moment(self, now: float) -> None:
        flow, present = self._flow, tuple(server.present for server in self._servers)
        answers = tuple(self._lookups.by_member)
        self._moments.append(
            FarmMoment(now, answers, present, flow.second_count, flow.second_sum, self._lookups.kept())
        )
        flow.second_count, flow.second_sum = 0, 0.0
        self._lookups.by_member = [0] * len(self._servers)

    def _result(self) -> SimulationResult:
        flow, lookups = self._flow, self._lookups
        requests = sum(flow.sent)
        missing = requests - len(flow.responses)  # not answered within DEADLINE after the end
        flow.responses.extend([DEADLINE] * missing)
        failed = flow.failed + missing
        ordered = sorted(flow.responses)
        sites = [
            tally.figures(site, swings(self._moments, self._scenario.warm_up, number))
            for number, (site, tally) in enumerate(zip(self._scenario.sites, flow.sites, strict=True))
        ]
        names = (server.name for server in self._scenario.servers)
        return SimulationResult(
            policy=self._policy,
            mean_ms=1000 * sum(ordered) / requests if requests else 0.0,
            p50_ms=1000 * percentile(ordered, 50),
            p95_ms=1000 * percentile(ordered, 95),
            p99_ms=1000 * percentile(ordered, 99),
            throughput_per_s=(requests - failed) / self._scenario.duration,
            failed=failed,
            requests=requests,
            shares={name: sent / max(1, requests) for name, sent in zip(names, flow.sent, strict=True)},
            sites=tuple(sites),
            backup=self._backup_figures(),
            answers=lookups.answers,
            few=lookups.few,
            highest=lookups.highest,
            reports=self._reports.count,
            late_answers=lookups.late_answers,
            moments=tuple(self._moments),
        )

    def _backup_figures(self) -> BackupFigures | None:
        backup, warm_up = self._scenario.backup_members, self._scenario.warm_up
        if not backup:
            return None
        sent, moments = self._flow.sent, [moment for moment in self._moments if moment.time > warm_up]
        return BackupFigures(
            requests=sum(sent[i] for i in backup) / max(1, sum(sent)),
            seconds=sum(any(moment.answers[i] for i in backup) for moment in moments),
            swings=swings(moments, warm_up, 0),
        )
