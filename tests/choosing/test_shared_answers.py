"""Choosers in several processes that share the queries plan like a single chooser that answers all queries."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from lbdns.choosing.chooser import Chooser
from lbdns.model.overrides import NO_POOL_OVERRIDES
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.policies.plan import Plan
from tests.policies.views import hand_out, handed

NAMES = ("a.z", "b.z", "c.z", "d.z")
BUSY = (1.0, 3.0, 6.0, 2.0)
CORES = (1.0, 2.0, 4.0, 1.0)
DELAY = 0.5  # s: workers exchange their counts every quarter of a second
STEP = 0.25  # s
WARM = 102.0  # s: before this, not all processes know that traffic is heavy


@dataclass
class Process:
    """A process: its chooser, its current plan, and the selections from that plan."""

    chooser: Chooser
    plan: Plan | None = None
    count: int = 0
    last: int | None = None
    handed: Counter[int] = field(default_factory=Counter)

    def answer(self, count: int) -> None:
        assert self.plan is not None
        order = hand_out(self.plan, self.count + count)[self.count :]
        self.handed.update(order)
        self.count += count
        self.last = order[-1] if order else self.last

    def report(self, snapshot: Snapshot, now: float, policy: str = "best") -> None:
        self.chooser.observe(snapshot, NO_POOL_OVERRIDES, now)
        before = handed(self.plan, self.count, self.last) if self.plan else None
        self.plan, self.count = self.chooser.plan(policy, before, now), 0


def snapshot(now: float) -> Snapshot:
    """Return reports from a farm behind DNS caches, where answers predict the load better than requests do."""
    return Snapshot(
        1,
        {
            name: Reading(
                now, 1.0, 50 + 10 * i, {"busy_workers": BUSY[i], "cpu_count": CORES[i], "requests_per_s": 1e6}
            )
            for i, name in enumerate(NAMES)
        },
    )


def run(shares: tuple[float, ...], rate: int, seconds: int, shared: bool, servers: int) -> list[Process]:
    """Return processes that have received the given shares of ``rate`` queries/s."""
    processes = [Process(Chooser(NAMES, 3.0, 0.5, Random(1), servers)) for _ in shares]
    late: list[list[int]] = []  # answers by process and step, until the others know of them
    for step in range(int(seconds / STEP)):
        now = 100 + step * STEP
        if shared and len(late) * STEP >= DELAY:
            told = late.pop(0)
            for process, own in zip(processes, told, strict=True):
                process.chooser.count_elsewhere("best", sum(told) - own, now)
        if step * STEP % 1 == 0:
            for process in processes:
                process.report(snapshot(now), now)
        if now == WARM:
            for process in processes:
                process.handed.clear()
        parts = [int(share * rate * STEP * (step + 1)) - int(share * rate * STEP * step) for share in shares]
        for process, part in zip(processes, parts, strict=True):
            process.answer(part)
        late.append(parts)
    return processes


def total(processes: list[Process]) -> list[float]:
    counts = sum((process.handed for process in processes), Counter[int]())
    return [counts[i] / counts.total() for i in range(len(NAMES))]


def apart(one: tuple[float, ...] | list[float], other: tuple[float, ...] | list[float]) -> float:
    """Return the fraction of selections in which two distributions differ."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2


UNEVEN = [(0.85, 0.05, 0.05, 0.05), (0.70, 0.24, 0.04, 0.02), (1.0, 0.0, 0.0, 0.0), (0.25, 0.25, 0.25, 0.25)]


@pytest.mark.parametrize("shares", UNEVEN)
@pytest.mark.parametrize("rate", [20, 100, 1000])
def test_each_of_four_processes_plans_like_one_with_all_queries(shares: tuple[float, ...], rate: int) -> None:
    (whole,) = run((1.0,), rate, 20, shared=False, servers=1)
    four = run(shares, rate, 20, shared=True, servers=1)
    assert whole.plan
    for process in four:
        assert process.plan
        assert apart(process.plan.weights, whole.plan.weights) < 0.02
    assert apart(total(four), total([whole])) < 0.02, "and in total they select as it does"


@pytest.mark.parametrize("shares", UNEVEN[:3])
def test_multiplying_own_answers_is_not_enough(shares: tuple[float, ...]) -> None:
    (whole,) = run((1.0,), 20, 20, shared=False, servers=1)
    four = run(shares, 20, 20, shared=False, servers=4)
    assert whole.plan
    assert max(apart(process.plan.weights, whole.plan.weights) for process in four if process.plan) > 0.05


@pytest.mark.parametrize("shares", UNEVEN)
def test_several_servers_multiply_their_total_answers(shares: tuple[float, ...]) -> None:
    """This server is one of two identical servers, and has four processes."""
    (whole,) = run((1.0,), 200, 20, shared=False, servers=1)
    four = run(shares, 100, 20, shared=True, servers=2)
    for process in four:
        assert process.plan
        assert whole.plan
        assert apart(process.plan.weights, whole.plan.weights) < 0.02


def test_light_traffic_is_light_in_the_process_that_gets_it_all() -> None:
    """One of four processes gives two answers per report interval; each names the member with the highest score."""
    four = run((1.0, 0.0, 0.0, 0.0), 2, 60, shared=True, servers=1)
    assert set(four[0].handed) == {3}
    alone = run((1.0, 0.0, 0.0, 0.0), 2, 60, shared=False, servers=4)
    assert len(alone[0].handed) > 1, "a quarter of the limit each, as without exchanging counts"


def test_heavy_traffic_is_heavy_in_a_process_that_gets_little() -> None:
    four = run((0.97, 0.01, 0.01, 0.01), 400, 20, shared=True, servers=1)
    for process in four:
        assert process.plan
        assert not process.plan.light


def test_a_crowd_that_comes_at_once_meets_the_highest_score_once_a_process_at_most() -> None:
    """Until the processes first exchange counts, each process considers its own traffic light."""
    four = [Process(Chooser(NAMES, 3.0, 0.5, Random(1))) for _ in range(4)]
    for process in four:
        process.report(snapshot(100.0), 100.0)
        process.answer(1000)
    few = 20 + 2  # of 10 s, and of the interval that begins
    assert [process.handed[3] for process in four] == [few] * 4


def test_what_is_heard_survives_another_configuration() -> None:
    old = Chooser(NAMES, 3.0, 0.5, Random(1))
    old.observe(snapshot(100.0), NO_POOL_OVERRIDES, 100.0)
    old.plan("best", None, 100.0)
    old.count_elsewhere("best", 1000, 100.5)
    new = Chooser(NAMES, 3.0, 0.5, Random(1))
    new.take_over(old)
    new.observe(snapshot(101.0), NO_POOL_OVERRIDES, 101.0)
    assert not new.plan("best", None, 101.0).light


def test_what_was_answered_and_charged_survives_another_configuration() -> None:
    """If counts were lost, each selection after a reload would stand for all answers of the last ten seconds."""
    seen = snapshot(100.0)
    old = Chooser(NAMES, 3.0, 0.5, Random(1))
    old.observe(seen, NO_POOL_OVERRIDES, 100.0)
    plan = old.plan("least_charged", None, 100.0)
    old.observe(seen, NO_POOL_OVERRIDES, 100.5)  # no report since
    old.plan("least_charged", handed(plan, 40), 100.5)
    new = Chooser(tuple(reversed(NAMES)), 3.0, 0.5, Random(1))
    new.take_over(old)
    new.observe(seen, NO_POOL_OVERRIDES, 100.6)
    before, after = old.view("least_charged", 100.6), new.view("least_charged", 100.6)
    assert before.multiplier == after.multiplier == 1.0
    assert sum(member.charge for member in before.members) == 40
    assert [member.charge for member in reversed(after.members)] == [member.charge for member in before.members]


def tell_others(servers: list[Process], number: int, policy: str, counts: dict[str, int], now: float) -> None:
    """Pass the answers of one server to all others, as a message does."""
    for other in servers:
        if other is not servers[number]:
            other.chooser.count_others(number, policy, counts, STEP, now)


def run_servers(rates: tuple[int, ...], seconds: int, policy: str) -> list[Process]:
    """Return servers that have received these queries/s, and have counted each other's answers by member."""
    servers = [Process(Chooser(NAMES, 3.0, 0.5, Random(1))) for _ in rates]
    for server in servers:
        server.chooser.hear(frozenset(range(len(rates))))
    for step in range(int(seconds / STEP)):
        now = 100 + step * STEP
        if step * STEP % 1 == 0:
            for server in servers:
                server.report(snapshot(now), now, policy)
        if now == WARM:
            for server in servers:
                server.handed.clear()
        before = [server.handed.copy() for server in servers]
        for server, rate in zip(servers, rates, strict=True):
            server.answer(int(rate * STEP))
        for number, (server, had) in enumerate(zip(servers, before, strict=True)):
            counts = {NAMES[i]: count for i, count in (server.handed - had).items()}
            tell_others(servers, number, policy, counts, now)
    return servers


@pytest.mark.parametrize("policy", ["best", "weighted", "least_charged"])
@pytest.mark.parametrize("rates", [(700, 500, 350), (2000, 400, 400), (520, 500, 480)])
def test_servers_that_count_each_others_answers_select_alike(rates: tuple[int, ...], policy: str) -> None:
    servers = run_servers(rates, 2 + 10_000 // min(rates), policy)
    shares = [total([server]) for server in servers]
    for i in range(len(NAMES)):
        column = [share[i] for share in shares]
        assert max(column) - min(column) < 0.02
