"""Defines rates over time: the day in the cloud study, the reactive scaler's httperf runs, and a flash crowd.

The day's curve is synthetic, because the curve of the original study was not published. The rate is ``35 + 565 s(t)^p``
requests/s, where s is a raised cosine that is 0 at 04:00 and 1 at 16:00. The exponent p determines the sharpness of the
afternoon peak. With the chosen value of p, the day's total is 22.2 million requests, as in the study.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import cos, pi
from typing import Final

from lbdns_tools.load.load_plan import LoadPhase, OpenLoop
from lbdns_tools.load.request_mix import RequestMix

DAY_S: Final = 86_400
DAY_LOWEST: Final = 35.0  # requests/s on the study's day
DAY_HIGHEST: Final = 600.0
DAY_REQUESTS: Final = 22.2e6
DAY_NIGHT_H: Final = 4.0  # hour with the fewest requests
DAY_STEPS: Final = 96  # of 15 minutes each

#: The httperf runs in the reactive scaler's study: start in s, number of connections, connections/s
SCALER_RUNS: Final = (
    (0, 1200, 1), (120, 4800, 10), (180, 3600, 10), (240, 3000, 10), (300, 9600, 40),
    (420, 4800, 10), (420, 4800, 10), (420, 4800, 10), (420, 9600, 40),
)  # fmt: skip


@cache
def day(steps: int = DAY_STEPS) -> tuple[float, ...]:
    """Return the day's rates in requests/s: one for the start of the day, and one for the end of each of ``steps``
    equal periods.

    Raises ValueError unless ``steps`` is a multiple of 24.
    """
    if steps < 24 or steps % 24:
        raise ValueError(f"the number of steps must be a multiple of 24, not {steps}")
    swing = [(1 - cos(2 * pi * (24 * step / steps - DAY_NIGHT_H) / 24)) / 2 for step in range(steps + 1)]

    def rates(power: float) -> tuple[float, ...]:
        return tuple(DAY_LOWEST + (DAY_HIGHEST - DAY_LOWEST) * max(0.0, share) ** power for share in swing)

    flat, pointed = 1.0, 3.0  # exponents that give more, and fewer, requests than in the study
    for _ in range(60):  # bisection down to the last bit of a float
        middle = (flat + pointed) / 2
        flat, pointed = (middle, pointed) if requests(rates(middle), DAY_S) > DAY_REQUESTS else (flat, middle)
    return rates(flat)


def requests(rates: tuple[float, ...], seconds: float) -> float:
    """Return the number of requests sent in ``seconds`` if the rate changes linearly between evenly spaced
    ``rates``."""
    return sum((first + last) / 2 for first, last in pairwise(rates)) * seconds / (len(rates) - 1)


def compressed_day(highest: float, seconds: float) -> OpenLoop:
    """Return the load over the study's day, compressed into ``seconds`` and scaled to a peak rate of ``highest``."""
    rates = tuple(rate * highest / DAY_HIGHEST for rate in day())
    return OpenLoop(rates, seconds / (len(rates) - 1), "poisson", ramp=True)


def scaler_highest() -> float:
    """Return the highest total rate of the scaler study's overlapping runs, in connections/s."""
    return max(
        sum(rate for begin, count, rate in SCALER_RUNS if begin <= moment < begin + count / rate)
        for moment, _, _ in SCALER_RUNS
    )


def scaler_phases(mix: RequestMix, begin_s: float, highest: float, seconds: float) -> tuple[LoadPhase, ...]:
    """Return the scaler study's runs, compressed to ``seconds`` and scaled so that their highest total rate is
    ``highest``."""
    whole = max(begin + count / rate for begin, count, rate in SCALER_RUNS)
    shorter, times = seconds / whole, highest / scaler_highest()
    phases = []
    for begin, count, rate in SCALER_RUNS:
        load = OpenLoop((rate * times,), count / rate * shorter, "poisson")
        phases.append(LoadPhase(begin_s + begin * shorter, load, mix, f"{count} at {rate}/s"))
    return tuple(phases)


@dataclass(frozen=True, slots=True)
class FlashCrowd:
    """A flash crowd in a run that lasts ``seconds``. At ``begin_s``, the rate rises to ``times`` times the usual rate,
    and after ``length_s`` seconds it returns to the usual rate."""

    seconds: int
    begin_s: int
    length_s: int
    times: float = 10.0

    def load(self, usual: float) -> OpenLoop:
        rates = tuple(
            usual * (self.times if self.begin_s <= second < self.begin_s + self.length_s else 1.0)
            for second in range(self.seconds)
        )
        return OpenLoop(rates, 1.0, "poisson")
