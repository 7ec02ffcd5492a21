"""When the requests of an open loop are meant to start. Pure: chance is an argument."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count, islice
from random import Random
from typing import Final

from lbdns_tools.load.plan import Open

_ROUNDING: Final = 1e-9  # of a request: 0.1/s for 30 s are 3 requests, whatever a sum of floats says


def chance_of(seed: int, phase: int) -> Random:
    """The chance by which the arrivals of a run's ``phase`` are drawn: the same in every process."""
    return Random(f"arrivals {seed} {phase}")


def arrivals(load: Open, chance: Random, part: int = 0, parts: int = 1) -> Iterator[float]:
    """Intended starts in seconds from the phase's beginning, ascending: of the whole sequence every ``parts``-th.

    All parts together are the whole, if each is given the same chance. Evenly spaced requests start at the beginning
    of their time: at 2/s at 0.0, 0.5, 1.0. Where the rate changes, the distance follows it.
    """
    whole = _even(load) if load.spacing == "even" else _poisson(load, chance)
    mine = islice(whole, part, load.requests or None, parts)
    return _times(load, mine)


def _even(load: Open) -> Iterator[float]:
    """Positions in the sequence: a request at each whole one."""
    return (float(number) for number in count())


def _poisson(load: Open, chance: Random) -> Iterator[float]:
    """A process of rate 1, which the rates then stretch: Poisson with a rate that changes."""
    position = 0.0
    while True:
        position += chance.expovariate(1.0)
        yield position


def _times(load: Open, positions: Iterator[float]) -> Iterator[float]:
    """When the number of requests meant to have started reaches each of the positions."""
    step_s = load.step_s
    before = 0.0  # requests of the steps that are over
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
