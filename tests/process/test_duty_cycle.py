"""Tests of how long a task pauses after a period of work."""

from __future__ import annotations

import pytest

from lbdns.process.duty_cycle import DutyCycle


@pytest.mark.parametrize(("worked", "pause"), [(0.0, 0.5), (0.01, 0.5), (0.1, 1.0), (0.15, 1.5), (5.0, 2.0)])
def test_the_pause_is_proportional_to_the_work_within_its_bounds(worked: float, pause: float) -> None:
    assert DutyCycle(10.0, shortest=0.5, longest=2.0).pause_after(worked) == pytest.approx(pause)


def test_without_bounds_the_work_takes_a_fixed_share_of_the_time() -> None:
    worked = 0.3
    assert worked / (worked + DutyCycle(9.0).pause_after(worked)) == pytest.approx(0.1)
