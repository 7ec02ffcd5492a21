"""Tests of how the seconds of a run are combined into windows."""

from __future__ import annotations

import pytest

from lbdns_tools.lab.report.run_windows import RunWindow, broke_at, cpu, windows
from tests.tools.lab.presets.made_up_courses import BEGUN, course


def test_response_by_littles_law() -> None:
    """Check Little's law with 10 requests/s that take 3 s each: 30 requests are outstanding after three seconds."""
    parts = windows(course([(10, 3.0, 0)] * 10).row)
    assert [part.started for part in parts] == [10] * 10
    assert parts[0].response_s is None  # none has ended
    assert parts[8].response_s == pytest.approx(3.0)
    assert parts[8].middle_s == 8.5


def test_seconds_in_which_only_the_rest_ends_are_left_out() -> None:
    assert len(windows(course([(10, 3.0, 0)] * 10).row)) == 10
    assert windows(course([]).row) == []


def test_longer_windows_are_means_and_the_last_may_be_shorter() -> None:
    parts = windows(course([(10, 0.01, 0), (20, 0.01, 10), (30, 0.01, 0)]).row, 2)
    assert [part.middle_s for part in parts] == [1.0, 2.5]
    assert [part.started for part in parts] == [15.0, 30.0]
    assert [part.failed for part in parts] == [5.0, 0.0]
    assert parts[0].failed_share == pytest.approx(1 / 3)


def test_where_a_ramp_broke() -> None:
    good = RunWindow(1, 10, 10, 0, 0.1)
    assert broke_at([good], 1.0, 0.01) == (None, "")
    slow = broke_at([good, RunWindow(2, 20, 10, 0, 2.0), RunWindow(3, 30, 0, 9, None)], 1.0, 0.01)
    assert slow == (20, "responses took 2 s")
    failing = broke_at([good, RunWindow(2, 25, 9, 1, 0.1)], 1.0, 0.01)
    assert failing == (25, "10 % failed")
    assert RunWindow(1, 0, 0, 0, None).failed_share == 0.0


def test_cpu_over_time() -> None:
    outcome = course([(1, 0.1, 0)] * 2, cpu={"bilbo": 5.0, "frodo": 2.0})
    assert outcome.samples[0].time == BEGUN + 1
    assert cpu(outcome, ["bilbo", "frodo"]) == [(1.0, 7.0), (2.0, 7.0)]
    assert cpu(outcome, ["bilbo", "gandalf"]) == []  # never read: no result, not 0
