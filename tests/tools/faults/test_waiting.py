"""Tests of waiting for a condition."""

from __future__ import annotations

import time

from lbdns_tools.faults.waiting import wait_for


def test_the_time_at_which_the_condition_held() -> None:
    before = time.monotonic()
    at = wait_for(lambda: time.monotonic() > before + 0.05, 30)
    assert at is not None
    assert before + 0.05 <= at <= time.monotonic()


def test_a_condition_that_never_holds_is_checked_at_least_once() -> None:
    checks: list[int] = []
    assert wait_for(lambda: checks.append(1), 0.0) is None
    assert checks
