"""Tests of fail-open statistics: counts and durations."""

from __future__ import annotations

from lbdns.planning.farm_plans import FailOpenTimes


def test_periods_add_up() -> None:
    times = FailOpenTimes()
    assert (times.count, times.seconds("web", 5.0)) == (0, 0.0)
    times.begin("web", 10.0)
    assert (times.count, times.seconds("web", 12.0), times.seconds("mail", 12.0)) == (1, 2.0, 0.0)
    times.end("web", 14.0)
    assert times.seconds("web", 99.0) == 4.0
    times.begin("web", 20.0)
    times.begin("mail", 21.0)
    assert (times.count, times.seconds("web", 23.0), times.seconds("mail", 23.0)) == (3, 7.0, 2.0)


def test_a_period_that_has_begun_begins_no_second_time() -> None:
    times = FailOpenTimes()
    times.begin("web", 10.0)
    times.begin("web", 15.0)
    times.end("web", 20.0)
    assert times.seconds("web", 30.0) == 10.0
