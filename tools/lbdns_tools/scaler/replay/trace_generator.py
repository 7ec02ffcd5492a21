"""Generates traces of demand from a seeded formula: the day of the 2012 study, or several days of the same shape.

A day has 1440 rates, one per minute. Its shape is the sum of two waves: one with its peak at 15:00, and a smaller one
with its peak at 20:30. The sum is multiplied by noise of a few percent, which is correlated from minute to minute. The
shape is raised to a power and scaled to 35 to 600 requests/s. The power is chosen so that a day has 22.2 million
requests, as in the study.
"""

from __future__ import annotations

from math import cos, pi
from random import Random
from typing import Final

from lbdns_tools.load.rate_trace import scale
from lbdns_tools.scaler.replay.demand_trace import DemandTrace

DAY: Final = 86_400
STEP: Final = 60  # s
MINUTES: Final = DAY // STEP
LEAST_RATE: Final = 35.0  # requests/s, as in the 2012 study
MOST_RATE: Final = 600.0
DAY_REQUESTS: Final = 22.2e6
NOISE: Final = 0.02  # standard deviation of the noise, as a fraction of the rate
MEMORY: Final = 0.9  # correlation of the noise with that of the minute before

WEEKEND: Final = (0.7, 0.6)  # Saturday's and Sunday's rates, as a fraction of a weekday's
GROWTH: Final = 0.003  # per day
CAMPAIGN_FACTOR: Final = 1.5  # in the hours of the campaign, after a rise of a few minutes
CAMPAIGN_MINUTES: Final = 180
CAMPAIGN_RISE: Final = 5  # minutes
OUTAGE_MINUTES: Final = 40  # no requests arrive, because the site cannot be reached
RETURN_FACTOR: Final = 1.2  # afterwards, while clients catch up
RETURN_MINUTES: Final = 10


def generate_trace(days: int, seed: int) -> DemandTrace:
    """Return a trace of one or more days; the first is a Monday. A single day has 22.2 million requests.

    Weekends have less demand, and the demand grows slowly. With 4 days or more, one day has a campaign, and another day
    has an outage of the site; neither is on the first or the last day. With 3 days, the campaign and the outage are
    both on the second day.
    """
    chance = Random(seed)
    inner = range(1, days - 1)
    events = chance.sample(inner, min(2, len(inner))) if inner else []
    rates: list[float] = []
    for day in range(days):
        factor = (WEEKEND[day % 7 - 5] if day % 7 >= 5 else 1.0) * (1 + GROWTH) ** day
        rates += [rate * factor for rate in _scaled_day(chance)]
    if events:
        _campaign(rates, events[0] * MINUTES + chance.randrange(9 * 60, 18 * 60))
        _outage(rates, events[-1] * MINUTES + chance.randrange(9 * 60, 20 * 60))
    return _trace(tuple(rates))


def _trace(rates: tuple[float, ...]) -> DemandTrace:
    rounded = tuple(round(rate, 2) for rate in rates)
    return DemandTrace(tuple(float(at * STEP) for at in range(len(rates))), rounded, float(len(rates) * STEP))


def _campaign(rates: list[float], begin: int) -> None:
    for minute in range(min(CAMPAIGN_MINUTES, len(rates) - begin)):
        rates[begin + minute] *= 1 + (CAMPAIGN_FACTOR - 1) * min(1.0, (minute + 1) / CAMPAIGN_RISE)


def _outage(rates: list[float], begin: int) -> None:
    for minute in range(begin, min(len(rates), begin + OUTAGE_MINUTES)):
        rates[minute] = 0.0
    for minute in range(begin + OUTAGE_MINUTES, min(len(rates), begin + OUTAGE_MINUTES + RETURN_MINUTES)):
        rates[minute] *= RETURN_FACTOR


def _scaled_day(chance: Random) -> tuple[float, ...]:
    """Return the rates of a day, scaled to the study's range and total."""
    shape = [_wave(minute / 60) * factor for minute, factor in enumerate(_noise(chance))]
    low, high = min(shape), max(shape)
    least, most = 0.1, 10.0
    for _ in range(40):  # a higher power makes the peak narrower
        power = (least + most) / 2
        rates = scale([((value - low) / (high - low)) ** power for value in shape], LEAST_RATE, MOST_RATE)
        if sum(rates) * STEP > DAY_REQUESTS:
            least = power
        else:
            most = power
    return rates


def _wave(hour: float) -> float:
    return 1.3 + cos((hour - 15) / 24 * 2 * pi) + 0.25 * cos((hour - 20.5) / 12 * 2 * pi)


def _noise(chance: Random) -> list[float]:
    """Return a factor near 1 for each minute."""
    found, level = [], 0.0
    for _ in range(MINUTES):
        level = MEMORY * level + (1 - MEMORY**2) ** 0.5 * chance.gauss(0, NOISE)
        found.append(1 + level)
    return found
