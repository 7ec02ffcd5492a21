"""What requests cost: seconds of work at speed 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Workload:
    """``mean`` seconds of work a request; ``draw`` makes the function that draws them from a source of chance."""

    mean: float
    draw: Callable[[Random], Callable[[], float]]


def exponential(mean: float) -> Workload:
    return Workload(mean, lambda chance: lambda: -mean * math.log(1.0 - chance.random()))


def hyperexponential(likely: float, mean: float, other: float) -> Workload:
    """Exponential with ``mean`` for the share ``likely`` of the requests, with ``other`` for the rest."""

    def draw(chance: Random) -> Callable[[], float]:
        random, log = chance.random, math.log
        return lambda: (-mean if random() < likely else -other) * log(1.0 - random())

    return Workload(likely * mean + (1 - likely) * other, draw)


def lognormal(mean: float, sigma: float) -> Workload:
    mu = math.log(mean) - sigma * sigma / 2
    return Workload(mean, lambda chance: lambda: math.exp(mu + sigma * chance.gauss(0.0, 1.0)))


WORKLOADS: Final[Mapping[str, Workload]] = MappingProxyType(
    {
        "html": exponential(0.010),
        "cgi": exponential(0.100),
        "mix": hyperexponential(0.9, 0.010, 0.200),
        "lognormal": lognormal(0.030, 2.0),
    }
)
