"""Checks that the synthetic day matches the study's figures, and that compression preserves proportions."""

from __future__ import annotations

import pytest

from lbdns_tools.lab.loads.load_shapes import (
    DAY_S,
    SCALER_RUNS,
    FlashCrowd,
    compressed_day,
    day,
    requests,
    scaler_highest,
    scaler_phases,
)
from lbdns_tools.load.load_plan import OpenLoop
from lbdns_tools.load.request_mix import one_url

MIX = one_url("http://best.hobbit/1k.html")


@pytest.mark.parametrize("steps", [24, 96, 1440])
def test_the_day_is_the_study_s(steps: int) -> None:
    rates = day(steps)
    assert len(rates) == steps + 1
    assert min(rates) == 35.0
    assert max(rates) == pytest.approx(600.0)
    assert requests(rates, DAY_S) == pytest.approx(22.2e6, abs=1)


def test_the_day_goes_down_to_the_night_up_to_the_afternoon_and_on_to_the_next() -> None:
    rates = day(24)
    assert rates.index(min(rates)) == 4
    assert rates.index(max(rates)) == 16
    assert list(rates[4:17]) == sorted(rates[4:17])
    assert list(rates[16:]) == sorted(rates[16:], reverse=True)
    assert rates[0] == pytest.approx(rates[-1])


@pytest.mark.parametrize("steps", [0, 12, 25])
def test_a_day_that_would_miss_its_extremes(steps: int) -> None:
    with pytest.raises(ValueError, match="multiple of 24"):
        day(steps)


def requests_of(load: OpenLoop) -> float:
    return sum((first + last) / 2 * load.step_s for first, last in load.segments)


def test_a_compressed_day() -> None:
    load = compressed_day(120.0, 300.0)
    assert load.ramp
    assert load.length_s == pytest.approx(300.0)
    assert max(load.rates) == pytest.approx(120.0)
    assert min(load.rates) == pytest.approx(7.0)
    assert requests_of(load) == pytest.approx(22.2e6 * 120 / 600 * 300 / DAY_S)


def test_the_scaler_s_runs_overlap_as_in_the_study() -> None:
    assert scaler_highest() == 141  # 1 + 10 + 10 + 10 + 40, and then 3 x 10 + 40
    assert (
        (0, 1200, 1), (120, 4800, 10), (180, 3600, 10), (240, 3000, 10), (300, 9600, 40),
        *[(420, 4800, 10)] * 3, (420, 9600, 40),
    ) == SCALER_RUNS  # fmt: skip
    phases = scaler_phases(MIX, 3.0, 70.5, 120.0)
    assert len(phases) == len(SCALER_RUNS)
    assert max(phase.begin_s + phase.load.length_s for phase in phases) == pytest.approx(123.0)
    assert [phase.begin_s for phase in phases][:3] == pytest.approx([3.0, 15.0, 21.0])
    loads = [phase.load for phase in phases if isinstance(phase.load, OpenLoop)]
    assert sum(load.rates[0] for load in loads) == pytest.approx(141 / 2)
    # A tenth of the time at half the rate
    assert sum(map(requests_of, loads)) == pytest.approx(sum(count for _, count, _ in SCALER_RUNS) / 20)


def test_a_crowd() -> None:
    load = FlashCrowd(seconds=9, begin_s=3, length_s=2, times=10.0).load(5.0)
    assert load.rates == (5, 5, 5, 50, 50, 5, 5, 5, 5)
    assert load.length_s == 9
