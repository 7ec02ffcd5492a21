"""Tests of generated traces: range and total of a day, weekends, the campaign, the outage and the seed."""

from __future__ import annotations

from itertools import groupby

import pytest

from lbdns_tools.scaler.replay.trace_generator import (
    DAY_REQUESTS,
    GROWTH,
    MINUTES,
    MOST_RATE,
    OUTAGE_MINUTES,
    WEEKEND,
    generate_trace,
)


@pytest.mark.parametrize("seed", [0, 1, 2, 2012])
def test_a_day(seed: int) -> None:
    day = generate_trace(1, seed)
    assert (min(day.rates), max(day.rates), len(day.rates)) == (35, 600, MINUTES)
    assert day.requests == pytest.approx(DAY_REQUESTS, rel=0.001)
    night, afternoon = day.rates[3 * 60 : 4 * 60], day.rates[15 * 60 : 16 * 60]
    assert sum(night) < 0.1 * sum(afternoon)


def test_equation_6_5_needs_216_server_hours_for_the_day() -> None:
    """The study used 351, so a replay does not reproduce table 6.2."""
    trace = generate_trace(1, 1)
    hours = sum(rate * 0.035 * seconds for rate, seconds in trace.pieces(0.0, trace.end)) / 3600
    assert hours == pytest.approx(216, abs=0.5)


def test_the_seed_decides() -> None:
    assert generate_trace(3, 1) == generate_trace(3, 1) != generate_trace(3, 2)


@pytest.mark.parametrize("seed", range(5))
def test_fifteen_days(seed: int) -> None:
    rates = generate_trace(15, seed).rates
    days = [rates[day * MINUTES : (day + 1) * MINUTES] for day in range(15)]
    usual = [MOST_RATE * (1 + GROWTH) ** day * {5: WEEKEND[0], 6: WEEKEND[1]}.get(day % 7, 1.0) for day in range(15)]
    assert [len(list(run)) for rate, run in groupby(rates) if rate == 0] == [OUTAGE_MINUTES]
    outage = next(day for day in range(15) if 0 in days[day])
    campaigns = [day for day in range(15) if max(days[day]) > 1.1 * usual[day] and day != outage]
    assert len(campaigns) == 1
    assert {outage, *campaigns} <= set(range(1, 14)), "the first and the last day are usual days"
    others = [day for day in range(15) if day not in (outage, *campaigns)]
    assert [max(days[day]) for day in others] == pytest.approx([usual[day] for day in others], abs=0.01)


@pytest.mark.parametrize("days", [2, 3, 4])
def test_few_days(days: int) -> None:
    trace = generate_trace(days, 1)
    assert len(trace.rates) == days * MINUTES
    assert (0 in trace.rates) == (days >= 3)
