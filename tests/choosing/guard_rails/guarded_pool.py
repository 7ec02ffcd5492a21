"""A pool in virtual time whose chooser applies guard rails."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from lbdns.choosing.chooser import Chooser
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.policies.plan import Plan, Selections
from tests.policies.views import hand_out, handed, steered

NAMES = ("a", "b", "c", "d")


class Pool:
    """A pool in virtual time. Every second, all members report, and some members are selected."""

    def __init__(self, members: int = 3, policies: tuple[str, ...] = ("best",), **options: Any) -> None:
        self.names = NAMES[:members]
        self.chooser = self.new(**options)
        self.policies = policies
        self.plans: dict[str, Selections | None] = dict.fromkeys(policies)
        self.now = 0.0
        self.requests = dict.fromkeys(self.names, 100.0)
        self.busy = dict.fromkeys(self.names, 0.0)  # CPU seconds
        self.cost = dict.fromkeys(self.names, 0.01)  # CPU seconds of a request
        self.more = dict.fromkeys(self.names, 0.0)  # requests/s beside what the load brings
        self.errors = Counter[str]()
        self.gets: Counter[str] = Counter()
        self.dead: set[str] = set()
        self.mute: set[str] = set()
        self.drained: set[str] = set()
        self.unreachable: set[str] = set()  # their reports do not arrive
        self.readings: dict[str, Reading] = {}
        self.alarms: dict[str, str] = {}
        self.load = 0.0  # of the pool, as the part of what all its members can do together
        self.interval = 1.0
        self.run(8)

    def new(self, min_usable: float = 0.5, **options: Any) -> Chooser:
        return Chooser(self.names, 3.0, min_usable, Random(1), **options)

    def metrics(self, name: str) -> dict[str, float]:
        """Return a member's metrics; the member serves 100 requests per CPU second unless ``cost`` is set."""
        known = {"cpu_count": 1.0, "run_queue": 0.0, "errors_total": float(self.errors[name])}
        if name in self.dead:
            return known
        serving = [other for other in self.names if other not in self.quarantined]
        rate = 100.0 * self.load * len(self.names) / len(serving) + self.more[name]
        self.requests[name] += 1 + rate
        self.busy[name] += self.cost[name] * rate  # the agent's own question costs next to nothing
        known |= {"listen_queue": 0.0, "httpd_cpu_seconds": self.busy[name]}
        if name in self.mute:
            return known
        return known | {
            "requests_total": self.requests[name],
            "requests_per_s": 1 + rate,
            "busy_workers": 5 * rate / 50,
        }

    def run(self, seconds: int, each: int = 10) -> None:
        """Advance the time by ``seconds``, with ``each`` selections per second for each policy."""
        for _ in range(seconds):
            self.now += 1.0
            self.tick(each)

    def tick(self, each: int = 10, reports: bool = True) -> None:
        if reports:
            self.readings |= {
                name: Reading(self.now, self.interval, 90 if name in self.dead else 50, self.metrics(name),
                              alarm=self.alarms.get(name, ""))
                for name in self.names
                if name not in self.unreachable
            }  # fmt: skip
        self.chooser.observe(Snapshot(1, dict(self.readings)), steered(self.drained), self.now)
        for policy in self.policies:
            plan = self.chooser.plan(policy, self.plans[policy], self.now)
            assert plan.order, "a plan is never empty"
            assert plan.repeat_from < len(plan.order)
            self.last, order = plan, hand_out(plan, each)
            self.gets.update(self.names[i] for i in order)
            before = self.plans[policy]
            self.plans[policy] = counted(plan, each, len(self.names), before.last if before else None)

    def served(self, seconds: int, each: int = 10) -> Counter[str]:
        """Return the number of selections of each member over the next ``seconds`` seconds."""
        self.gets.clear()
        self.run(seconds, each)
        return self.gets

    @property
    def quarantined(self) -> list[str]:
        return [name for name, g in zip(self.names, self.chooser.guards(self.now), strict=True) if g.quarantined]

    @property
    def guards(self) -> dict[str, str]:
        found = zip(self.names, self.chooser.guards(self.now), strict=True)
        return {name: guard.text(self.now) for name, guard in found if guard.text(self.now)}


def counted(plan: Plan, each: int, members: int, last: int | None) -> Selections:
    found = handed(plan, each, last)
    return Selections(plan, (*found.counts, *(0,) * (members - len(found.counts))), found.last)
