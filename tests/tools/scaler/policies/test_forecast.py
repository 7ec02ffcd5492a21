"""Tests of the policy forecast: the fallback, growth by time of day and kind of day, quantile and spare servers."""

from __future__ import annotations

import math

import pytest

from lbdns_tools.scaler.policies.forecast import Forecast
from lbdns_tools.scaler.policies.queue import Queue
from lbdns_tools.scaler.policies.scaling_policy import Demand, Recommendation, ScalingRound
from tests.tools.scaler.policies.farm_views import CAPACITY, MONDAY, DecidingFarm, rounds, view

DAY = 86_400.0
MINUTE = 60.0


def decide(rate: float, past: list[ScalingRound], now: float, count: int, **settings: float) -> Recommendation:
    return Forecast(**settings).recommend(view(rate, count, past, now, maximum=60))  # type: ignore[arg-type]


def history(days: dict[int, tuple[float, float]], now: float, today: float) -> list[ScalingRound]:
    """Return rounds of a minute: day d before ``now`` has the first rate until this time of day, then the second."""
    found = []
    for at in range(int(-14.5 * 1440), 0):
        time = now + at * MINUTE
        day = math.ceil((now - time) / DAY - 0.5)
        before, after = days.get(day, (today, today))
        rate = before if time <= now - day * DAY else after
        found.append(ScalingRound(Demand(time, rate), 5, 5, 5))
    return found


@pytest.mark.parametrize("minutes", [0, 1, 60, 1439])
def test_less_than_a_day_of_history_is_left_to_queue(minutes: int) -> None:
    past = rounds([100.0] * minutes, 5, MONDAY - 60)
    found, queue = decide(150.0, past, MONDAY, 5), Queue().recommend(view(150.0, 5, past, maximum=60))
    assert (found.servers, found.remove) == (queue.servers, queue.remove)
    assert found.reason == f"With less than 24 h of history, policy queue decides: {queue.reason}"


def test_one_day_of_history_is_enough() -> None:
    now = MONDAY + DAY
    past = rounds([100.0] * 1439, 5, now - 60)
    assert "less than 24 h" in decide(100.0, past, now, 5).reason
    past = rounds([100.0] * 1440, 5, now - 60)
    assert "less than 24 h" not in decide(100.0, past, now, 5).reason


def test_servers_start_before_the_demand_rises() -> None:
    now = MONDAY + 8 * 3600  # on Monday, the days before that are weekdays are 3, 4, 5, 6, 7 ...
    past = history(dict.fromkeys(range(1, 15), (50.0, 150.0)), now, 100.0)
    found = decide(100.0, past, now, 5)
    assert found.servers == Queue().servers(300.0, CAPACITY), "the demand triples, as it did every day"
    assert found.reason == (
        f"300.0 requests/s, expected within 240 s according to 10 earlier days, need {found.servers} servers."
    )
    assert decide(100.0, past, now, 5, boot_time=0.0, ttl=0.0).servers == 5, "a server is there at once"


def test_the_kind_of_day_counts() -> None:
    now = MONDAY + 8 * 3600
    weekend = dict.fromkeys((1, 2, 8, 9), (50.0, 150.0))  # Sunday, Saturday, Sunday, Saturday
    calm = dict.fromkeys(range(1, 15), (100.0, 100.0))
    assert decide(100.0, history(calm | weekend, now, 100.0), now, 5).servers == 5
    saturday = now + 5 * DAY
    past = history(calm | dict.fromkeys((6, 7, 13, 14), (50.0, 150.0)), saturday, 100.0)
    assert decide(100.0, past, saturday, 5).servers == Queue().servers(300.0, CAPACITY)


def test_other_days_count_if_there_is_none_of_its_kind() -> None:
    saturday = MONDAY + 5 * DAY + 8 * 3600
    past = [past for past in history({1: (50.0, 150.0)}, saturday, 100.0) if past.demand.time > saturday - 1.4 * DAY]
    assert decide(100.0, past, saturday, 5).servers == Queue().servers(300.0, CAPACITY)


@pytest.mark.parametrize(("quantile", "rising"), [(90.0, False), (91.0, True), (100.0, True)])
def test_the_quantile_leaves_out_rare_days(quantile: float, rising: bool) -> None:
    now = MONDAY + 8 * 3600
    past = history(dict.fromkeys(range(1, 14), (100.0, 100.0)) | {14: (50.0, 150.0)}, now, 100.0)
    assert (decide(100.0, past, now, 5, quantile=quantile).servers > 5) == rising


def test_an_outage_is_no_growth() -> None:
    now = MONDAY + 8 * 3600
    past = history(dict.fromkeys(range(1, 7), (0.0, 300.0)) | {7: (20.0, 100.0)}, now, 100.0)
    assert decide(100.0, past, now, 5, days=7).servers == 5, "no level, and five times the level, say nothing"


def test_the_forecast_only_adds() -> None:
    now = MONDAY + 8 * 3600
    past = history(dict.fromkeys(range(1, 15), (150.0, 10.0)), now, 100.0)
    assert decide(100.0, past, now, 5).servers == 5


def test_a_spare_server_while_the_demand_rises() -> None:
    """Without a reserve by queueing theory, one server more than the demand needs is idle."""
    now = MONDAY + 8 * 3600
    flat = history({}, now, 100.0)
    rising = [
        ScalingRound(Demand(past.demand.time, 80.0 if past.demand.time < now - 600 else 100.0), 5, 5, 4)
        for past in flat
        if past.demand.time > now - 1.4 * DAY
    ]
    steady = [ScalingRound(past.demand, 5, 5, 4) for past in flat]
    settings = {"beta": 0.001, "boot_time": 0.0, "ttl": 0.0}
    assert decide(100.0, steady, now, 4, **settings).servers == 4
    assert decide(100.0, rising, now, 4, **settings).servers == 5
    assert decide(100.0, rising, now, 4, **settings, spare=3).servers == 7


def test_a_rising_morning_loses_nothing_that_queue_loses() -> None:
    """Rates double within 10 minutes every morning, and servers take 10 minutes to boot."""

    def rate(time: float) -> float:
        return 100.0 + 200.0 * min(1.0, max(0.0, (time % DAY - 8 * 3600) / 600)) * (time % DAY < 18 * 3600)

    results = {}
    for policy in (Queue(), Forecast(boot_time=600.0)):
        farm = DecidingFarm(policy, 6, period=60.0, maximum=60)
        numbers = farm.follow(rate(MONDAY + at * MINUTE) for at in range(1, 3 * 1440))
        start = 2 * 1440 + 8 * 60
        results[type(policy)] = numbers[start - 5]  # decided 5 minutes before the rise
    assert results[Forecast] >= 10 > 6 >= results[Queue]


def test_the_history_is_14_days() -> None:
    assert 14 * DAY < Forecast().history < 14.1 * DAY
    assert Forecast(days=2).history < 3 * DAY
