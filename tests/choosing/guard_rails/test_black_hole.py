"""Black-hole detection: symptoms in reports, quarantine, probes and release."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.choosing.guard_rails.black_hole import (
    CLOGGED,
    DEAD,
    FAILING,
    FIRST_PROBE,
    LAST_PROBE,
    MUTE,
    RELEASE,
    STATUS_PAGE_COUNTS,
    STUCK,
    BlackHoleWatch,
    Symptom,
)
from lbdns.model.snapshot import Reading


class Member:
    """A member that reports every second and that a detector watches for black-hole symptoms."""

    def __init__(self) -> None:
        self.watch = BlackHoleWatch()
        self.now = 0.0
        self.requests = 1000.0
        self.errors = 5.0

    def report(self, seconds: float = 1.0, alarm: str = "", gone: bool = False, **metrics: float | None) -> None:
        """Send the next report of a server that receives only its agent's requests; a metric set to None is omitted."""
        self.now += seconds
        self.requests += round(seconds)
        told = {"requests_total": self.requests, "listen_queue": 0.0, **metrics}
        known = {name: value for name, value in told.items() if value is not None}
        self.watch.observe(Reading(self.now, 1.0, 50, known, alarm, gone))

    def well(self, times: int = 3) -> None:
        for _ in range(times):
            self.report()

    def dead(self, times: int = 1) -> None:
        for _ in range(times):
            self.report(requests_total=None, listen_queue=None)

    def failing(self, times: int = 1, handed: int = 3) -> None:
        """Send reports with increasing error counts while the member is selected."""
        for _ in range(times):
            self.watch.selections += handed
            self.errors += 1
            self.report(errors_total=self.errors)

    def quiet(self, times: int = 1) -> None:
        for _ in range(times):
            self.report(errors_total=self.errors)

    @property
    def caught(self) -> Symptom | None:
        return self.watch.caught


@pytest.fixture
def member() -> Member:
    found = Member()
    found.well()
    return found


@pytest.mark.parametrize(
    ("metrics", "reports", "finding"),
    [
        ({"requests_total": None, "listen_queue": None}, 1, DEAD),
        ({"requests_total": None, "listen_queue": 1.0}, 3, STUCK),
        ({"requests_total": None}, 3, MUTE),
    ],
)
def test_a_server_status_that_fails_is_held_against_it(
    member: Member, metrics: dict[str, Any], reports: int, finding: Symptom
) -> None:
    began = member.now + 1.0
    for _ in range(reports):
        assert member.caught is None
        member.report(**metrics)
    assert member.caught is finding
    assert member.watch.since == began
    member.report()
    assert member.caught is finding, "one report is not enough"
    member.report()
    assert member.caught is None


def test_without_an_accept_queue_a_failing_page_is_all_there_is() -> None:
    member = Member()
    for _ in range(3):
        member.report(listen_queue=None)
    for _ in range(3):
        assert member.caught is None
        member.dead()
    assert member.caught is MUTE
    member.dead(int(2 * STATUS_PAGE_COUNTS))
    assert member.caught is MUTE, "no report says that a socket listens there"


def test_who_never_had_a_server_status_is_never_judged() -> None:
    member = Member()
    for queue in (None, 0.0, 5.0, 9.0):
        for _ in range(10):
            member.watch.selections += 10
            member.report(requests_total=None, listen_queue=queue, errors_total=member.now)
            assert member.caught is None


def test_a_page_that_is_late_now_and_then_is_no_failure(member: Member) -> None:
    for _ in range(20):
        member.report(requests_total=None)
        member.report(requests_total=None)
        member.report()
        assert member.caught is None


def test_a_page_that_is_switched_off_is_not_held_against_it_for_ever(member: Member) -> None:
    for _ in range(int(STATUS_PAGE_COUNTS)):
        member.report(requests_total=None)
    assert member.caught is MUTE
    member.report(requests_total=None)
    assert member.caught is None, "a server accepts connections"
    for _ in range(100):
        member.report(requests_total=None)
        assert member.caught is None
    member.dead(1)
    assert member.caught is DEAD, "unless no socket listens any more"


def test_a_page_that_comes_back_counts_again(member: Member) -> None:
    for _ in range(int(STATUS_PAGE_COUNTS) + 5):
        member.report(requests_total=None)
    assert member.caught is None
    member.well(1)
    for _ in range(3):
        member.report(requests_total=None)
    assert member.caught is MUTE


@pytest.mark.parametrize("kind", ["alarm", "gone"])
def test_alarms_and_farewells_say_nothing(member: Member, kind: str) -> None:
    for _ in range(5):
        member.report(alarm="x" if kind == "alarm" else "", gone=kind == "gone", requests_total=None, listen_queue=None)
    assert member.caught is None
    assert member.watch.symptom is None


def test_errors_that_rise_while_nothing_is_served(member: Member) -> None:
    member.quiet()
    member.failing()
    assert member.caught is None
    member.failing()
    assert member.caught is FAILING


def test_connections_that_wait_while_nothing_is_served(member: Member) -> None:
    for queue in (1.0, 2.0):
        assert member.caught is None
        member.watch.selections += 2
        member.report(listen_queue=queue)
    assert member.caught is CLOGGED
    member.report(listen_queue=0.0)
    member.report(listen_queue=0.0)
    assert member.caught is None


def test_connections_that_are_accepted_one_after_another_are_no_failure(member: Member) -> None:
    for queue in (9.0, 8.0, 7.0, 6.0, 5.0, 4.0):
        member.watch.selections += 5
        member.report(listen_queue=queue)
        assert member.caught is None


def test_requests_speak_for_it(member: Member) -> None:
    member.quiet()
    for _ in range(10):
        member.requests += 1  # one more than its agent's question
        member.failing()
        assert member.caught is None


def test_without_hand_outs_errors_are_others_affair(member: Member) -> None:
    member.quiet()
    member.failing(10, handed=0)
    assert member.caught is None
    member.failing(1, handed=3)
    assert member.caught is FAILING


def test_no_rise_alone_proves_nothing(member: Member) -> None:
    for _ in range(100):
        member.watch.selections += 10
        member.report()
    assert member.caught is None


def test_lost_reports_are_allowed_for(member: Member) -> None:
    member.quiet()
    member.watch.selections += 9
    for _ in range(3):
        member.errors += 1
        member.report(3.0, errors_total=member.errors)  # three questions of its agent in three seconds
    assert member.caught is FAILING


def test_errors_that_come_seldom_add_up(member: Member) -> None:
    member.quiet()
    for _ in range(2):
        member.failing(1, handed=2)
        member.quiet(5)
    assert member.caught is FAILING


def test_a_counter_that_begins_anew_says_nothing(member: Member) -> None:
    member.quiet()
    member.failing()
    member.requests = 0.0
    member.failing()
    assert member.caught is None


def test_it_is_probed_at_growing_distances(member: Member) -> None:
    member.quiet()
    member.failing(2)
    expected = FIRST_PROBE
    for _ in range(6):
        assert member.watch.probe_at == pytest.approx(member.now + expected)
        member.now = member.watch.probe_at
        member.watch.probed(member.now - 0.001)
        assert member.watch.probe_at == member.now, "only what is due is a probe"
        member.watch.probed(member.now)
        expected = min(2 * expected, LAST_PROBE)


def test_without_a_probe_it_is_not_released(member: Member) -> None:
    member.quiet()
    member.failing(2)
    member.quiet(20)
    assert member.caught is FAILING, "without traffic, errors cannot rise"
    member.watch.probed(member.now)
    member.quiet(1)
    assert member.caught is FAILING
    member.quiet(1)
    assert member.caught is None


def test_a_probe_that_fails_asks_for_another(member: Member) -> None:
    member.quiet()
    member.failing(2)
    member.now = member.watch.probe_at
    member.watch.probed(member.now)
    member.failing(1, handed=0)
    member.quiet(10)
    assert member.caught is FAILING
    member.requests += 1
    member.quiet(1)
    member.requests += 1
    member.quiet(1)
    assert member.caught is None, "it serves others"


def test_who_is_caught_again_is_probed_as_seldom_as_before(member: Member) -> None:
    member.quiet()
    member.failing(2)
    member.now = member.watch.probe_at
    member.watch.probed(member.now)
    member.quiet(RELEASE)
    assert member.caught is None
    member.failing(2)
    assert member.caught is FAILING
    assert member.watch.probe_at == pytest.approx(member.now + 2 * FIRST_PROBE)


#: What a report may say: requests beyond the agent's own, errors, connections that wait (None: metric absent)
REPORTS = st.tuples(
    st.sampled_from([None, 0, 0, 3]), st.integers(0, 2), st.sampled_from([None, 0.0, 1.0, 4.0]), st.integers(0, 4)
)


@given(st.lists(REPORTS, max_size=60))
def test_it_ends_when_the_server_is_back(history: list[tuple[int | None, int, float | None, int]]) -> None:
    member = Member()
    for requests, errors, queue, handed in history:
        member.watch.selections += handed
        if member.now >= member.watch.probe_at:
            member.watch.probed(member.now)
        member.requests += requests or 0
        member.errors += errors
        told = None if requests is None else member.requests + 1
        member.report(requests_total=told, errors_total=member.errors, listen_queue=queue)
        assert (member.watch.probe_at < math.inf) == (member.caught is not None and member.caught.probed)
        assert member.caught is None or member.watch.symptom is not None
    for _ in range(int(LAST_PROBE) + RELEASE + 1):
        if member.now >= member.watch.probe_at:
            member.watch.probed(member.now)
        member.quiet()
    assert member.caught is None
