"""Tests of the check schedule: who is checked when, and what results change. In virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.config.check_setting import CheckConfig, parse_target
from lbdns.model.liveness import state_of
from lbdns.model.snapshot import FailedCheck, Reading
from lbdns_collector.checks.check_schedule import OVERDUE, CheckSchedule, MemberCheck, with_failure, without_failures
from lbdns_collector.checks.probe_result import PASSED, ProbeResult
from lbdns_shared.report import WEB_SERVER_FAILED

CHECK = CheckConfig(parse_target("tcp:80"))
REFUSED = ProbeResult(False, "connection refused")
NOT_MADE = ProbeResult(None, "too many open files")


def member(name: str = "frodo", pool: str = "web", check: CheckConfig = CHECK) -> MemberCheck:
    return MemberCheck(pool, f"{name}.hobbit", ("192.0.2.1",), check)


class Stage:
    """A schedule in virtual time, with the readings that reports and checks have left."""

    def __init__(self, *checks: MemberCheck, stale_after: float = 3.0) -> None:
        self.now = 100.0
        self.readings: dict[str, Reading] = {}
        self.schedule = CheckSchedule()
        self.schedule.stale_after = stale_after
        self.schedule.use(checks or (member(),), self.now)

    def report(self, name: str = "frodo", alarm: str = "", interval: float = 1.0) -> None:
        before = self.readings.get(f"{name}.hobbit")
        failed = before.failed_checks if before and alarm else ()
        self.readings[f"{name}.hobbit"] = Reading(self.now, interval, 50, alarm=alarm, failed_checks=failed)

    def checked(self, until: float) -> list[tuple[float, MemberCheck]]:
        """Return the checks that begin until then, with their times; they have no results."""
        found = []
        while self.schedule.next_due <= until:
            self.now = max(self.now, self.schedule.next_due)
            if check := self.schedule.take(self.readings.get, self.now):
                found.append((self.now, check))
        self.now = until
        return found

    def next_check(self, result: ProbeResult, takes: float = 0.01) -> float:
        """Make the next check with this result, and return when it began."""
        began, check = self.now, None
        while check is None:
            began = self.now = max(self.now, self.schedule.next_due)
            check = self.schedule.take(self.readings.get, began)
        self.now += takes
        self.finish(check, result, began)
        return began

    def finish(self, check: MemberCheck, result: ProbeResult, began: float) -> None:
        changed = self.schedule.finish(check, result, began, self.readings.get, self.now)
        if changed:
            self.readings[check.member] = changed

    def state(self, name: str = "frodo", pool: str = "web") -> str:
        return state_of(self.readings.get(f"{name}.hobbit"), self.now, self.schedule.stale_after, pool=pool)


def test_a_member_that_reports_is_not_checked() -> None:
    stage = Stage()
    for _ in range(50):
        stage.report()
        assert stage.checked(stage.now + 1.0) == []


def test_who_has_never_reported_or_has_said_bye_is_not_checked() -> None:
    stage = Stage(member("frodo"), member("bilbo"))
    stage.readings["bilbo.hobbit"] = Reading(stage.now, 1.0, 50, gone=True)
    assert stage.checked(200.0) == []


@pytest.mark.parametrize("interval", [0.2, 1.0, 10.0])
def test_it_is_checked_once_its_report_is_overdue(interval: float) -> None:
    stage = Stage()
    for _ in range(20):
        assert stage.checked(stage.now + interval) == []
        stage.report(interval=interval)
    ((when, check),) = stage.checked(stage.now + 1.6 * interval)
    assert when == stage.readings["frodo.hobbit"].received + OVERDUE * interval
    assert check == member()


def test_who_fails_is_silent_at_once_and_usable_with_the_next_report() -> None:
    stage = Stage()
    stage.report()
    assert stage.next_check(REFUSED) == 100.0 + OVERDUE
    assert stage.state() == "silent"
    assert stage.readings["frodo.hobbit"].failure("web") == "tcp:80: connection refused"
    assert stage.readings["frodo.hobbit"].failure("other") == ""
    stage.report()
    assert stage.state() == "usable"


def test_who_passes_while_overdue_stays_as_it_is() -> None:
    stage = Stage()
    stage.report()
    before = stage.readings["frodo.hobbit"]
    assert stage.next_check(PASSED) == 100.0 + OVERDUE
    assert stage.readings["frodo.hobbit"] is before
    assert stage.next_check(PASSED) == 101.0 + OVERDUE  # again, since the host may die later
    assert stage.state() == "usable"
    assert stage.checked(200.0) == []  # silent for want of reports: a dead agent is not taken for a member without one
    assert stage.state() == "silent"


def test_two_passed_checks_bring_it_back_as_long_as_reports_would() -> None:
    stage = Stage()
    stage.report(interval=10.0)
    stage.next_check(REFUSED)
    assert stage.state() == "silent"
    stage.next_check(PASSED)
    assert stage.state() == "silent"
    stage.next_check(REFUSED)
    stage.next_check(PASSED)
    assert stage.state() == "silent"  # not two in a row
    stage.next_check(PASSED)
    assert stage.state() == "usable"
    stage.checked(131.0)
    assert stage.state() == "silent"


def test_a_check_that_cannot_be_made_changes_nothing() -> None:
    stage = Stage()
    stage.report()
    before = stage.readings["frodo.hobbit"]
    stage.next_check(NOT_MADE)
    assert stage.readings["frodo.hobbit"] is before
    stage.next_check(REFUSED)
    stage.report(alarm=WEB_SERVER_FAILED)
    stage.next_check(NOT_MADE)
    assert stage.state() == "silent"


def test_a_report_during_the_check_outweighs_its_result() -> None:
    stage = Stage()
    stage.report()
    ((began, check),) = stage.checked(101.5)
    stage.now = 101.6
    stage.report()
    stage.now = 101.8
    stage.finish(check, REFUSED, began)
    assert stage.state() == "usable"


def test_an_alarm_about_the_web_server_is_checked_at_once() -> None:
    stage = Stage()
    stage.report()
    stage.now = 100.4
    stage.report(alarm=f"{WEB_SERVER_FAILED}: nothing listens on port 80")
    stage.schedule.hurry(["frodo.hobbit", "unknown.hobbit"], stage.now)
    assert stage.next_check(REFUSED) == 100.4
    assert stage.state() == "silent"
    stage.report(alarm=WEB_SERVER_FAILED)
    assert stage.state() == "silent"  # still
    stage.next_check(PASSED)
    stage.report(alarm=WEB_SERVER_FAILED)
    stage.next_check(PASSED)
    assert stage.state() == "alarm"  # its agent has the last word
    stage.report()
    assert stage.state() == "usable"


def test_an_alarm_about_load_is_not_checked() -> None:
    stage = Stage()
    for _ in range(5):
        stage.report(alarm="listen_queue 300 > 256")
        stage.schedule.hurry([], stage.now)
        assert stage.checked(stage.now + 1.0) == []


def test_pools_have_checks_of_their_own() -> None:
    mail = member(pool="mail", check=CheckConfig(parse_target("tcp:25")))
    stage = Stage(member(), mail)
    stage.report()
    began = {check.pool: (when, check) for when, check in stage.checked(101.5)}
    stage.finish(began["web"][1], REFUSED, 101.5)
    stage.finish(began["mail"][1], PASSED, 101.5)
    assert (stage.state(), stage.state(pool="mail")) == ("silent", "usable")


def test_a_reload_keeps_what_goes_on_and_drops_what_is_gone() -> None:
    stage = Stage()
    stage.report()
    ((began, check),) = stage.checked(101.5)
    stage.schedule.use([member(), member("bilbo")], stage.now)
    stage.finish(check, REFUSED, began)
    assert stage.state() == "silent"
    ((began, check),) = stage.checked(102.6)
    stage.schedule.use([member("bilbo")], stage.now)
    before = stage.readings["frodo.hobbit"]
    stage.finish(check, PASSED, began)
    assert stage.readings["frodo.hobbit"] is before
    assert stage.checked(110.0) == []


def test_a_changed_check_begins_anew() -> None:
    stage = Stage()
    stage.report(interval=10.0)
    ((began, check),) = stage.checked(116.0)
    other = CheckConfig(parse_target("tcp:8080"))
    stage.schedule.use([member(check=other)], stage.now)
    stage.finish(check, REFUSED, began)
    assert stage.state() == "usable"
    ((_, check),) = stage.checked(117.5)
    assert check.check == other


def test_failures_of_unknown_pools_are_forgotten() -> None:
    reading = Reading(1.0, 1.0, 50, failed_checks=(FailedCheck("a", "x"), FailedCheck("b", "y")))
    assert without_failures(reading, lambda pool: True) is None
    assert without_failures(reading, lambda pool: pool == "b") == replace(
        reading, failed_checks=(FailedCheck("b", "y"),)
    )
    assert with_failure(reading, "a", "x") is None
    assert with_failure(reading, "a", "") == replace(reading, failed_checks=(FailedCheck("b", "y"),))


def agentless(name: str = "frodo", pool: str = "web", check: CheckConfig = CHECK) -> MemberCheck:
    return replace(member(name, pool, check), agentless=True)


class TestAgentless:
    def test_it_is_checked_at_once_and_then_at_the_interval(self) -> None:
        stage = Stage(agentless())
        assert stage.state() == "unknown"
        assert stage.next_check(PASSED) == 100.0
        assert stage.state() == "usable"
        assert stage.readings["frodo.hobbit"] == Reading(100.0, 1.0, None)
        assert [stage.next_check(PASSED) for _ in range(3)] == [101.0, 102.0, 103.0]
        assert stage.readings["frodo.hobbit"].received == 103.0

    def test_members_are_checked_at_different_moments(self) -> None:
        stage = Stage(*(agentless(f"m{i}") for i in range(4)))
        assert [stage.next_check(PASSED, takes=0.0) for _ in range(8)] == [
            100.0, 100.0, 100.0, 100.0, 100.25, 100.5, 100.75, 101.0,
        ]  # fmt: skip
        assert [stage.next_check(PASSED, takes=0.0) for _ in range(4)] == [101.25, 101.5, 101.75, 102.0]

    def test_one_lost_packet_does_no_harm_and_two_failures_take_it_out(self) -> None:
        stage = Stage(agentless())
        stage.next_check(PASSED)
        assert stage.next_check(REFUSED) == 101.0
        assert stage.state() == "usable"
        assert stage.next_check(PASSED) == pytest.approx(101.3)  # soon, after the timeout
        assert stage.next_check(REFUSED) == pytest.approx(102.3)
        assert stage.next_check(REFUSED) == pytest.approx(102.6)
        assert stage.state() == "silent"
        assert stage.readings["frodo.hobbit"].failure("web") == "tcp:80: connection refused"
        assert stage.next_check(REFUSED) == pytest.approx(103.6)

    def test_a_timeout_is_repeated_at_once(self) -> None:
        stage = Stage(agentless())
        stage.next_check(PASSED)
        stage.next_check(ProbeResult(False, "no answer within 0.3 s"), takes=0.3)
        assert stage.next_check(PASSED) == pytest.approx(101.3)

    def test_it_returns_after_two_passed_checks(self) -> None:
        stage = Stage(agentless())
        for result in (PASSED, REFUSED, REFUSED, PASSED, REFUSED, PASSED):
            stage.next_check(result)
        assert stage.state() == "silent"
        stage.next_check(PASSED)
        assert stage.state() == "usable"

    def test_who_never_passed_is_silent_with_the_reason(self) -> None:
        stage = Stage(agentless())
        stage.next_check(REFUSED)
        assert stage.state() == "unknown"
        stage.next_check(REFUSED)
        assert stage.state() == "silent"
        assert stage.readings["frodo.hobbit"].failure("web")

    def test_checks_that_cannot_be_made_let_it_age(self) -> None:
        stage = Stage(agentless())
        stage.next_check(PASSED)
        for _ in range(2):
            stage.next_check(NOT_MADE)
        assert stage.state() == "usable"
        stage.next_check(NOT_MADE, takes=0.1)
        assert stage.state() == "silent"

    def test_thresholds_and_interval_are_the_pool_s(self) -> None:
        stage = Stage(agentless(check=replace(CHECK, interval=10.0, timeout=2.0, up=1, down=3)))
        times = [stage.next_check(result) for result in (PASSED, REFUSED, REFUSED)]
        assert times == [100.0, 110.0, 112.0]
        assert stage.state() == "usable"
        assert stage.next_check(REFUSED) == 114.0
        assert stage.state() == "silent"
        assert stage.next_check(PASSED) == 124.0
        assert stage.state() == "usable"

    def test_the_check_of_one_pool_does_not_age_it_in_another(self) -> None:
        stage = Stage(agentless(), agentless(pool="mail", check=CheckConfig(parse_target("tcp:25"), interval=60.0)))
        for _ in range(4):
            stage.next_check(PASSED)
        for _ in range(30):
            stage.next_check(REFUSED, takes=0.0)
        assert stage.now > 115
        assert (stage.state(), stage.state(pool="mail")) == ("silent", "usable")

    def test_a_reload_keeps_the_times(self) -> None:
        stage = Stage(agentless())
        stage.next_check(PASSED)
        stage.now = 100.7
        stage.schedule.use([agentless()], stage.now)
        assert stage.next_check(PASSED) == 101.0

    def test_an_agent_s_member_and_one_without_are_not_the_same(self) -> None:
        stage = Stage(agentless())
        stage.next_check(PASSED)
        stage.schedule.use([member()], stage.now)
        stage.readings.clear()  # as a report table does
        assert stage.checked(110.0) == []


@given(
    st.lists(
        st.tuples(st.floats(0.0, 5.0), st.sampled_from(["data", "alarm", "passed", "failed", "not made"])), max_size=40
    )
)
def test_only_a_failed_check_or_silence_takes_a_member_out(steps: list[tuple[float, str]]) -> None:
    """Whatever happens: data makes it usable, and with a failed check it stays out until data or two passed checks."""
    stage = Stage()
    passes = 0
    for wait, what in steps:
        stage.now += wait
        failing = bool((r := stage.readings.get("frodo.hobbit")) and r.failure("web"))
        if what in ("data", "alarm"):
            stage.report(alarm="" if what == "data" else WEB_SERVER_FAILED)
            if what == "data":
                assert stage.state() == "usable"
            elif failing:
                assert stage.state() == "silent"
            continue
        result = {"passed": PASSED, "failed": REFUSED, "not made": NOT_MADE}[what]
        check = None
        while check is None and stage.schedule.next_due <= stage.now:
            check = stage.schedule.take(stage.readings.get, stage.now)
        if check is None:
            continue
        stage.finish(check, result, stage.now)
        passes = {True: passes + 1, False: 0, None: passes}[result.passed]
        now_failing = stage.readings["frodo.hobbit"].failure("web")
        if result is REFUSED:
            assert now_failing
        elif result is NOT_MADE or passes < 2:
            assert bool(now_failing) == failing
