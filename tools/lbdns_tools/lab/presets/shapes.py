"""Loads of the cloud studies and of a crowd, as rates over time. Pure.

The day is made up, as the original isn't published: a night, a climb and a fall. ``35 + 565 s(t)^p`` requests/s, where
s is a raised cosine, 0 at four in the morning and 1 at four in the afternoon. How pointed the afternoon is, p, is the
one thing left free, and it is found so that the day has the 22.2 million requests of the study.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import cos, pi
from typing import Final

from lbdns_tools.load.mix import Mix
from lbdns_tools.load.plan import Open, Phase, Spacing

DAY_S: Final = 86_400
DAY_LOWEST: Final = 35.0  # requests/s, of the study's day
DAY_HIGHEST: Final = 600.0
DAY_REQUESTS: Final = 22.2e6
DAY_NIGHT_H: Final = 4.0  # hour of the fewest requests
DAY_STEPS: Final = 96  # a quarter of an hour each

#: Runs of httperf that made the load of the reactive scaler's study: s from the beginning, connections, connections/s
SCALER_RUNS: Final = (
    (0, 1200, 1), (120, 4800, 10), (180, 3600, 10), (240, 3000, 10), (300, 9600, 40),
    (420, 4800, 10), (420, 4800, 10), (420, 4800, 10), (420, 9600, 40),
)  # fmt: skip


@cache
def day(steps: int = DAY_STEPS) -> tuple[float, ...]:
    """Requests/s at the ``steps`` + 1 ends of as many equal parts of the day, straight lines in between.

    ``steps`` is a multiple of 24, so that the lowest and the highest are met.
    """
    if steps < 24 or steps % 24:
        raise ValueError(f"a day has a multiple of 24 steps, not {steps}")
    swing = [(1 - cos(2 * pi * (24 * step / steps - DAY_NIGHT_H) / 24)) / 2 for step in range(steps + 1)]

    def rates(power: float) -> tuple[float, ...]:
        return tuple(DAY_LOWEST + (DAY_HIGHEST - DAY_LOWEST) * max(0.0, share) ** power for share in swing)

    flat, pointed = 1.0, 3.0  # more and fewer requests than the study's
    for _ in range(60):  # each halves the span: to the last bit of a float
        middle = (flat + pointed) / 2
        flat, pointed = (middle, pointed) if requests(rates(middle), DAY_S) > DAY_REQUESTS else (flat, middle)
    return rates(flat)


def requests(rates: tuple[float, ...], seconds: float) -> float:
    """How many come within ``seconds``, when the rate goes in straight lines from each to the next."""
    return sum((first + last) / 2 for first, last in pairwise(rates)) * seconds / (len(rates) - 1)


def compressed_day(highest: float, seconds: float, spacing: Spacing = "poisson", steps: int = DAY_STEPS) -> Open:
    """The day within ``seconds``, in proportion, so that its highest rate is ``highest``."""
    rates = tuple(rate * highest / DAY_HIGHEST for rate in day(steps))
    return Open(rates, seconds / (len(rates) - 1), spacing, ramp=True)


def scaler_highest() -> float:
    """Connections/s, where most of the runs overlap."""
    return max(
        sum(rate for begin, count, rate in SCALER_RUNS if begin <= moment < begin + count / rate)
        for moment, _, _ in SCALER_RUNS
    )


def scaler_phases(mix: Mix, highest: float, seconds: float, begin_s: float = 0.0) -> tuple[Phase, ...]:
    """The runs of the scaler's study within ``seconds``, their rates in proportion with the sum at most ``highest``."""
    whole = max(begin + count / rate for begin, count, rate in SCALER_RUNS)
    shorter, times = seconds / whole, highest / scaler_highest()
    return tuple(
        Phase(
            begin_s + begin * shorter,
            Open((rate * times,), count / rate * shorter, "poisson"),
            mix,
            f"{count} at {rate}/s",
        )
        for begin, count, rate in SCALER_RUNS
    )


@dataclass(frozen=True, slots=True)
class Crowd:
    """A flash crowd: ``times`` the usual rate from ``begin_s`` on for ``length_s``, of ``seconds`` in all."""

    seconds: int
    begin_s: int
    length_s: int
    times: float = 10.0

    def load(self, usual: float) -> Open:
        rates = tuple(
            usual * (self.times if self.begin_s <= second < self.begin_s + self.length_s else 1.0)
            for second in range(self.seconds)
        )
        return Open(rates, 1.0, "poisson")
