"""Tests of simulated checks: which hosts are checked and when, and which readings the checks change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lbdns.model.snapshot import Reading
from lbdns_collector.checks.check_schedule import OVERDUE
from lbdns_tools.sim.event_calendar import EventCalendar
from lbdns_tools.sim.simulated_checks import CHECK, NO_ANSWER, STEP, SimulatedChecks

STALE_AFTER = 3.0


class Hosts:
    """Two hosts in virtual time that report every second. A host that dies reports no more."""

    def __init__(self, stale_after: float = STALE_AFTER) -> None:
        self.calendar = EventCalendar()
        self.readings: dict[str, Reading] = {}
        self.silent: set[str] = set()
        self.dead: set[int] = set()
        self.received: list[tuple[str, Reading, float]] = []
        checks = SimulatedChecks(["a", "b"], stale_after, self.readings.get, self.dead.__contains__, self._receive)
        self.calendar.every(0.0, 1.0, self._report)
        checks.schedule(self.calendar)

    def _report(self, now: float) -> None:
        for name in {"a", "b"} - self.silent:
            self.readings[name] = Reading(now, 1.0, 50)

    def _receive(self, name: str, reading: Reading, now: float) -> None:
        self.readings[name] = reading
        self.received.append((name, reading, now))

    def run_until(self, end: float) -> None:
        while self.calendar.events[0][0] <= end:
            self.calendar.run_next()


def test_hosts_that_report_in_time_are_not_checked() -> None:
    hosts = Hosts()
    hosts.dead.add(0)  # a check of this host would fail
    hosts.run_until(20.0)
    assert hosts.received == []


def test_a_dead_host_fails_its_check_soon_after_its_report_is_overdue() -> None:
    hosts = Hosts()
    hosts.run_until(10.5)
    hosts.silent.add("a")
    hosts.dead.add(0)
    hosts.run_until(12.9)
    ((name, reading, when),) = hosts.received
    assert name == "a"
    assert 10.0 + OVERDUE + CHECK.timeout <= when <= 10.0 + OVERDUE + CHECK.timeout + 2 * STEP
    assert reading.failure("") == f"icmp: {NO_ANSWER.reason}"
    assert (reading.received, reading.score) == (10.0, 50), "the rest of the reading stays"


def test_a_host_whose_agent_alone_has_ended_passes() -> None:
    hosts = Hosts()
    hosts.run_until(10.5)
    hosts.silent.add("a")
    hosts.run_until(20.0)
    assert hosts.received == []


def test_a_host_that_answers_again_returns_after_several_checks() -> None:
    hosts = Hosts(stale_after=10.0)
    hosts.run_until(10.5)
    hosts.silent.add("a")
    hosts.dead.add(0)
    hosts.run_until(11.7)
    hosts.dead.clear()
    hosts.run_until(20.0)
    assert [(name, bool(reading.failure(""))) for name, reading, _ in hosts.received] == [("a", True), ("a", False)]
    (_, _, failed), (_, _, passed) = hosts.received
    assert passed - failed >= (CHECK.up - 1) * CHECK.interval - STEP


def test_a_report_during_a_check_wins() -> None:
    hosts = Hosts()
    hosts.run_until(10.5)
    hosts.silent.add("a")
    hosts.dead.add(0)
    hosts.run_until(10.0 + OVERDUE + CHECK.timeout / 2)  # the check has begun
    hosts.readings["a"] = replace(hosts.readings["a"], received=11.5)
    hosts.run_until(12.5)
    assert hosts.received == []


@pytest.mark.parametrize("stale", [False, True])
def test_silent_hosts_are_checked_no_more(stale: bool) -> None:
    hosts = Hosts()
    hosts.run_until(10.5)
    hosts.silent.update("ab")
    if not stale:
        hosts.dead.update((0, 1))
    hosts.run_until(10.0 + STALE_AFTER)
    hosts.dead.update((0, 1))
    before = len(hosts.received)
    hosts.run_until(60.0)
    assert {name for name, _, _ in hosts.received[:before]} == (set() if stale else {"a", "b"})
    assert len(hosts.received) == before
