"""Runs one scenario under one policy with one seed: the events of virtual time, one after another."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import accumulate
from random import Random
from typing import Final, Protocol

from lbdns.policies.chooser import AVERAGE
from lbdns.policies.few import FEW
from lbdns.snapshot import Reading
from lbdns_agent.cadence import WATCH_EVERY
from lbdns_collector.score import SCORES, Score
from lbdns_tools.sim.agent import Agent
from lbdns_tools.sim.dns import DnsServer
from lbdns_tools.sim.results import Moment, Result
from lbdns_tools.sim.scenario import DEADLINE, Scenario
from lbdns_tools.sim.server import Server
from lbdns_tools.sim.workloads import WORKLOADS

ORACLE: Final = "oracle"  # joins the shortest expected queue, knowing everything: no policy, but the bound for all

EARLY: Final = 0.1  # of its interval: how soon after another an agent may report early
NOBODY: Final = -1  # the client of a request that nobody waits for before sending the next


class Scorer(Protocol):
    """Weighs reports in place of the scenario's score, and is told of each before it does."""

    def observe(self, member: str, metrics: Mapping[str, float], now: float) -> None: ...
    def of(self, metrics: Mapping[str, float]) -> int: ...


def run(scenario: Scenario, policy: str, seed: int, scorer: Scorer | None = None) -> Result:
    """What comes of ``scenario`` when ``policy`` chooses.

    The same seed brings the same requests whatever the policy. With ``scorer`` reports are scored by that.
    """
    return _Run(scenario, policy, seed, scorer).run()


class _Run:
    def __init__(self, scenario: Scenario, policy: str, seed: int, scorer: Scorer | None) -> None:
        self.scenario, self.policy = scenario, policy
        self.names = tuple(server.name for server in scenario.servers)
        self.index = {name: i for i, name in enumerate(self.names)}
        self.servers = [Server(spec) for spec in scenario.servers]
        self.agents = [Agent(server, scenario.alarms) for server in self.servers]
        self.score = Score(scenario.terms) if scenario.terms is not None else SCORES[scenario.score]
        self.scorer = scorer
        # A source of chance for each purpose, so that policies are compared on the same requests
        self.arrival_chance, self.size_chance, self.client_chance, self.report_chance, self.dns_chance = (
            Random(f"{seed} {purpose}") for purpose in ("arrivals", "sizes", "clients", "reports", "dns")
        )
        workload = WORKLOADS[scenario.workload]
        self.size = workload.draw(self.size_chance)
        capacity = sum(server.capacity for server in scenario.servers)
        self.rate = scenario.rate if scenario.rate is not None else scenario.load * capacity / workload.mean
        self.dns = [
            DnsServer(
                self.names,
                "round_robin" if policy == ORACLE else policy,
                scenario.stale_after,
                scenario.min_usable,
                Random(f"{seed} policy {number}"),
                scenario.dns_servers,
            )
            for number in range(scenario.dns_servers)
        ]
        self.alive = [True] * len(self.servers)  # the hosts; reports come from the living
        self.dead_since = [math.inf] * len(self.servers)
        self.events: list[tuple[float, int, Callable[[float], None]]] = []
        self.scheduled = 0
        self.responses = array("d")
        self.failed = self.answers = self.few = self.highest = self.late_answers = 0
        self.recent: deque[float] = deque()  # times of answers
        self.reports = 0
        self.reported = [0] * len(self.servers)  # requests there when the last report was made
        self.sent = [0] * len(self.servers)  # requests after the warm-up, by server
        self.asked = [0] * len(self.servers)  # answers, by server
        self.second_count, self.second_sum = 0, 0.0
        self.moments: list[Moment] = []
        self.factor = 1.0
        self.next_arrival = math.inf

    # What happens

    def at(self, when: float, what: Callable[[float], None]) -> None:
        self.scheduled += 1
        heappush(self.events, (when, self.scheduled, what))

    def run(self) -> Result:
        scenario = self.scenario
        self._schedule()
        choose = self._chooser_of_clients()
        servers, ends = self.servers, [math.inf] * len(self.servers)
        self.ends = ends
        events, size, send = self.events, self.size, self._send
        end, last = scenario.end, scenario.end + DEADLINE
        while True:
            arrival = self.next_arrival
            departure = min(ends)
            event = events[0][0]
            if departure <= arrival and departure <= event:
                if departure > last:
                    break
                at = ends.index(departure)
                server = servers[at]
                request = server.depart(departure)
                ends[at] = server.next_end
                self._respond(request, departure)
            elif arrival <= event:
                if arrival >= end:
                    self.next_arrival = math.inf
                    continue
                self._draw_arrival(arrival)
                send(arrival, choose(arrival), size(), NOBODY)
            else:
                if event > last:
                    break
                heappop(events)[2](event)
        return self._result()

    def _send(self, now: float, member: int, size: float, client: int) -> None:
        """A request to ``member``."""
        measured = self.scenario.warm_up <= now < self.scenario.end
        if measured:
            self.sent[member] += 1
        server = self.servers[member]
        if server.up and server.arrive(now, size, (now, client)):
            self.ends[member] = server.next_end
            return
        self._lose(now, now, client)

    def _lose(self, now: float, started: float, client: int) -> None:
        """A request that started at ``started`` will never be answered."""
        if self.scenario.warm_up <= started < self.scenario.end:
            self.responses.append(DEADLINE)
            self.failed += 1
        self.second_count += 1
        self.second_sum += DEADLINE
        if client != NOBODY:
            self.resolved_until[client] = -math.inf
            self.at(max(now, started + DEADLINE), partial(self._request_of, client))

    def _respond(self, request: tuple[float, int], now: float) -> None:
        started, client = request
        seconds = now - started
        self.second_count += 1
        self.second_sum += min(seconds, DEADLINE)
        if self.scenario.warm_up <= started < self.scenario.end:
            if seconds > DEADLINE:
                self.failed += 1
                seconds = DEADLINE
            self.responses.append(seconds)
        if client != NOBODY:
            self._request_of(client, now)

    # Clients

    def _chooser_of_clients(self) -> Callable[[float], int]:
        """How an arriving request gets its server."""
        clients = self.scenario.clients
        if clients.kind == "closed":
            self.resolved_until = [-math.inf] * clients.count
            self.resolved = [0] * clients.count
            for client in range(clients.count):
                self.at(self.client_chance.random() * 0.1, partial(self._request_of, client))
            return self._resolve
        if self.scenario.arrivals is None:
            self.next_arrival = 0.0
            self._draw_arrival(0.0)
        else:
            self.recorded: Iterator[float] = iter(self.scenario.arrivals)
            self.next_arrival = next(self.recorded, math.inf)
        return self._through_caches() if clients.kind == "caches" else self._resolve

    def _draw_arrival(self, now: float) -> None:
        if self.scenario.arrivals is not None:
            self.next_arrival = next(self.recorded, math.inf)
        else:
            self.next_arrival = now - math.log(1.0 - self.arrival_chance.random()) / (self.rate * self.factor)

    def _through_caches(self) -> Callable[[float], int]:
        clients, chance = self.scenario.clients, self.client_chance
        weights = list(accumulate((k + 1) ** -clients.zipf for k in range(clients.count)))
        kept_for = [chance.uniform(clients.shortest, clients.longest) for _ in weights]
        until, members = [-math.inf] * clients.count, [0] * clients.count

        def choose(now: float) -> int:
            at = bisect_left(weights, chance.random() * weights[-1])
            if until[at] <= now:
                until[at] = now + kept_for[at]
                members[at] = self._resolve(now)
            return members[at]

        return choose

    def _request_of(self, client: int, now: float) -> None:
        """A client of the closed loop sends its next request."""
        if now >= self.scenario.end:
            return
        if now >= self.resolved_until[client]:
            # The first time of each client falls anywhere into its interval
            part = self.client_chance.random() if self.resolved_until[client] == -math.inf else 1.0
            self.resolved_until[client] = now + part * self.scenario.clients.resolve
            self.resolved[client] = self._resolve(now)
        self._send(now, self.resolved[client], self.size(), client)

    def _resolve(self, now: float) -> int:
        """One answer of the DNS."""
        if self.policy == ORACLE:
            member = self._shortest()
        else:
            dns = self.dns[0] if len(self.dns) == 1 else self.dns_chance.choice(self.dns)
            member = dns.handout.next()
            if self.scenario.check_few and self._is_few(now):
                self.few += 1
                self.highest += dns.is_highest(member)
        self.answers += 1
        self.asked[member] += 1
        if now > self.dead_since[member] + self.scenario.stale_after * self.scenario.interval:
            self.late_answers += 1
        return member

    def _is_few(self, now: float) -> bool:
        """Whether this answer is one of few: at most two a report interval on the average of ten seconds, for at
        least an interval."""
        self.recent.append(now)
        while self.recent[0] <= now - AVERAGE - self.scenario.interval:
            self.recent.popleft()
        return len(self.recent) <= FEW * AVERAGE / self.scenario.interval

    def _shortest(self) -> int:
        best, least = 0, math.inf
        for i, server in enumerate(self.servers):
            if server.up and (expected := server.expected()) < least:
                best, least = i, expected
        return best

    # What is on the calendar

    def _schedule(self) -> None:
        scenario = self.scenario
        self.events = [(math.inf, 0, _nothing)]
        heapify(self.events)
        for i in range(len(self.servers)):
            begin = self.report_chance.random() * scenario.interval
            self.at(begin, partial(self._report_in_time, i))
            if scenario.early:
                self.at(begin + EARLY * scenario.interval, partial(self._report_early, i))
            if scenario.alarms:
                self.at(begin + WATCH_EVERY, partial(self._watch, i))
        for number in range(len(self.dns)):
            self.at(scenario.interval, partial(self._look, number))
        for surge in scenario.surges:
            self.at(surge.start, partial(self._set_factor, surge.factor))
            self.at(surge.end, partial(self._set_factor, 1.0))
        for work in scenario.other_work:
            i = self.index[work.server]
            usual = scenario.servers[i].background
            self.at(work.start, partial(self._set_background, i, usual + work.tasks))
            self.at(work.end, partial(self._set_background, i, usual))
        for outage in scenario.outages:
            i = self.index[outage.server]
            host = not outage.service_only
            self.at(outage.start, partial(self._die, i, host))
            if outage.end < math.inf:
                self.at(outage.end, partial(self._revive, i))
        self.at(1.0, self._note_moment)

    def _report_in_time(self, i: int, now: float) -> None:
        self.at(now + self.scenario.interval, partial(self._report_in_time, i))
        self._report(i, now)

    def _report_early(self, i: int, now: float) -> None:
        self.at(now + EARLY * self.scenario.interval, partial(self._report_early, i))
        if abs(self.servers[i].present - self.reported[i]) >= self.scenario.early:
            self._report(i, now)

    def _watch(self, i: int, now: float) -> None:
        self.at(now + WATCH_EVERY, partial(self._watch, i))
        if self.alive[i] and (metrics := self.agents[i].glance()) is not None:
            self._tell(i, metrics, now)

    def _report(self, i: int, now: float) -> None:
        if self.alive[i]:
            self.reported[i] = self.servers[i].present
            self._tell(i, self.agents[i].sample(now), now)

    def _tell(self, i: int, metrics: Mapping[str, float], now: float) -> None:
        scenario = self.scenario
        self.reports += 1
        if self.scorer is not None:
            self.scorer.observe(self.names[i], metrics, now)
        reading = Reading(
            now, scenario.interval, (self.scorer or self.score).of(metrics), metrics, alarm=self.agents[i].alarm
        )
        for dns in self.dns:
            if not (scenario.loss and self.report_chance.random() < scenario.loss):
                dns.hear(self.names[i], reading, now)

    def _look(self, number: int, now: float) -> None:
        dns = self.dns[number]
        if now >= dns.next_change:
            dns.look(now)
        self.at(min(max(dns.next_change, now), now + self.scenario.interval), partial(self._look, number))

    def _set_factor(self, factor: float, now: float) -> None:
        self.factor = factor
        if self.next_arrival < math.inf and self.scenario.arrivals is None:
            self._draw_arrival(now)

    def _set_background(self, i: int, tasks: float, now: float) -> None:
        self.servers[i].set_background(tasks, now)
        self.ends[i] = self.servers[i].next_end

    def _die(self, i: int, host: bool, now: float) -> None:
        self.alive[i] = not host
        self.dead_since[i] = now
        for started, client in self.servers[i].fail(now):
            self._lose(now, started, client)
        self.ends[i] = math.inf

    def _revive(self, i: int, now: float) -> None:
        self.alive[i] = True
        self.dead_since[i] = math.inf
        self.servers[i].recover(now)

    def _note_moment(self, now: float) -> None:
        self.moments.append(
            Moment(now, tuple(self.asked), tuple(s.present for s in self.servers), self.second_count, self.second_sum)
        )
        self.second_count, self.second_sum = 0, 0.0
        self.asked = [0] * len(self.servers)
        self.at(now + 1.0, self._note_moment)

    # What is found

    def _result(self) -> Result:
        requests = sum(self.sent)
        missing = requests - len(self.responses)  # still at work 10 s after the end
        self.responses.extend([DEADLINE] * missing)
        self.failed += missing
        ordered = sorted(self.responses)
        return Result(
            policy=self.policy,
            mean_ms=1000 * sum(ordered) / requests if requests else 0.0,
            p50_ms=_percentile(ordered, 0.50),
            p95_ms=_percentile(ordered, 0.95),
            p99_ms=_percentile(ordered, 0.99),
            throughput_per_s=(requests - self.failed) / self.scenario.duration,
            failed=self.failed,
            requests=requests,
            shares={name: sent / max(1, requests) for name, sent in zip(self.names, self.sent, strict=True)},
            answers=self.answers,
            few=self.few,
            highest=self.highest,
            reports=self.reports,
            late_answers=self.late_answers,
            moments=tuple(self.moments),
        )


def _percentile(ordered: list[float], share: float) -> float:
    """In milliseconds: the smallest value that ``share`` of all do not exceed; 0 if there is none."""
    return 1000 * ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))] if ordered else 0.0


def _nothing(now: float) -> None:
    pass
