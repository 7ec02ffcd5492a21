"""Tests of the measurement rule of the 2014 scaler."""

from __future__ import annotations

import pytest

from lbdns_tools.scaler.policies.session_counter import CounterReading, session_rate


@pytest.mark.parametrize(
    ("before", "now", "reloaded", "per_s", "sessions"),
    [
        ((0.0, 0), (60.9, 10), False, 1, 60),
        ((0.0, 60), (62.3, 262), False, 4, 248),
        ((0.0, 0), (60.0, 0), False, 0, 0),
        ((0.0, 5411), (81.0, 4266), True, 72, 4320),
        ((0.0, 10), (62.0, 60), True, 1, 60),  # the counter did not fall
    ],
)
def test_rates_are_rounded_up(
    before: tuple[float, int], now: tuple[float, int], reloaded: bool, per_s: int, sessions: int
) -> None:
    rate = session_rate(CounterReading(*before), CounterReading(*now), reloaded=reloaded)
    assert (rate.per_s, rate.sessions) == (per_s, sessions)


def test_less_than_a_second_has_no_rate() -> None:
    with pytest.raises(ValueError, match="at least 1 s apart"):
        session_rate(CounterReading(0.0, 1), CounterReading(0.9, 5), reloaded=False)
