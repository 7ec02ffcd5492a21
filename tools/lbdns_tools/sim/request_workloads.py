"""Workloads: distributions of the work per request, in seconds at speed 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class RequestWorkload:
    """``mean`` seconds of work a request; ``draw`` makes the function that draws them from a source of chance."""

    mean: float
    draw: Callable[[Random], Callable[[], float]]


def exponential(mean: float) -> RequestWorkload:
    return RequestWorkload(mean, lambda chance: lambda: -mean * math.log(1.0 - chance.random()))


def hyperexponential(likely: float, mean: float, other: float) -> RequestWorkload:
    """Exponential with ``mean`` for the share ``likely`` of the requests, with ``other`` for the rest."""

    def draw(chance: Random) -> Callable[[], float]:
        random, log = chance.random, math.log
        return lambda: (-mean if random() < likely else -other) * log(1.0 - random())

    return RequestWorkload(likely * mean + (1 - likely) * other, draw)


def lognormal(mean: float, sigma: float) -> RequestWorkload:
    mu = math.log(mean) - sigma * sigma / 2
    return RequestWorkload(mean, lambda chance: lambda: math.exp(mu + sigma * chance.gauss(0.0, 1.0)))


WORKLOADS: Final[Mapping[str, RequestWorkload]] = MappingProxyType(
    {
        "html": exponential(0.010),
        "cgi": exponential(0.100),
        "mix": hyperexponential(0.9, 0.010, 0.200),
        "lognormal": lognormal(0.030, 2.0),
    }
)
