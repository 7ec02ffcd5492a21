from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.agent_loop import ReportSchedule
from lbdns_agent.alarm_conditions import ALARM_CHECK_INTERVAL

TIMES = st.floats(0, 1e6)
INTERVALS = st.floats(0.1, 3600)


@pytest.mark.parametrize(
    ("now", "due"),
    [
        (0.0, 10.0),  # before the first
        (10.0, 11.0),
        (10.2, 11.0),
        (11.9999, 12.0),
        (14.5, 15.0),  # 12, 13 and 14 were missed, and stay missed
    ],
)
def test_next_after(now: float, due: float) -> None:
    assert ReportSchedule(10.0, 1.0).next_report(now) == due


@given(TIMES, INTERVALS, TIMES)
def test_ticks_are_on_the_grid_in_the_future_and_not_skipped_without_need(
    first: float, interval: float, now: float
) -> None:
    due = ReportSchedule(first, interval).next_report(now)
    assert due > now
    assert due == first or due - now <= interval * (1 + 1e-6)
    ticks = (due - first) / interval
    assert ticks == pytest.approx(round(ticks), abs=1e-4)


@given(TIMES, INTERVALS)
def test_no_drift_over_many_ticks(first: float, interval: float) -> None:
    schedule, due = ReportSchedule(first, interval), first
    for _ in range(200):
        due = schedule.next_report(due + 0.01 * interval)
    assert due == pytest.approx(first + 200 * interval)


@pytest.mark.parametrize(
    ("now", "due", "expected"),
    [
        (0.0, 1.0, 0.25),
        (0.5, 1.0, 0.75),
        (0.75, 1.0, 1.0),
        (0.7, 1.0, 1.0),  # 0.95 would be half a step before the tick
        (0.0, 0.1, 0.1),  # the ticks come faster than the looks
        (0.0, 600.0, 0.25),
    ],
)
def test_watch_after(now: float, due: float, expected: float) -> None:
    assert ReportSchedule(0.0, 1.0).next_alarm_check(now, due) == expected


def test_no_wait_is_longer_than_a_look() -> None:
    schedule = ReportSchedule(0.0, 7.0)
    now = 0.0
    while now < 7.0:
        wake = schedule.next_alarm_check(now, 7.0)
        assert 0 < wake - now <= ALARM_CHECK_INTERVAL * 1.5
        now = wake
