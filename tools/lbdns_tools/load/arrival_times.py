"""Arrival times of an open loop: when its requests are due, evenly spaced or Poisson. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count, islice
from random import Random
from typing import Final

from lbdns_tools.load.load_plan import OpenLoop

_ROUNDING: Final = 1e-9  # of a request: 0.1/s for 30 s are 3 requests, despite rounding errors


def arrivals(load: OpenLoop, chance: Random, part: int = 0, parts: int = 1) -> Iterator[float]:
    """Yield every ``parts``-th due time, ascending, in seconds from the start of the phase.

    With the same ``chance``, all parts together are the whole sequence. Evenly spaced requests start at once: at 2/s
    they are due at 0.0, 0.5, 1.0. Intervals follow a changing rate.
    """
    # At a rate of 1; the rates then stretch it
    whole = map(float, count()) if load.spacing == "even" else _poisson(chance)
    positions = islice(whole, part, load.requests or None, parts)
    step_s = load.step_s
    before = 0.0  # requests in earlier steps
    position = next(positions, math.inf)
    for number, (first, last) in enumerate(load.segments):
        begin, more = number * step_s, (first + last) / 2 * step_s
        slope = 2 * (last - first) / step_s if step_s else 0.0
        end = before + more - _ROUNDING
        while position < end:
            inside = max(0.0, position - before)
            # The root of first*t + slope/4*t^2 = inside, in the form that also holds for slope 0
            root = first + math.sqrt(max(0.0, first * first + slope * inside))
            yield begin + (min(2 * inside / root, step_s) if root else 0.0)
            position = next(positions, math.inf)
        before += more


def _poisson(chance: Random) -> Iterator[float]:
    """Yield the positions of a Poisson process of rate 1."""
    position = 0.0
    while True:
        position += chance.expovariate(1.0)
        yield position
