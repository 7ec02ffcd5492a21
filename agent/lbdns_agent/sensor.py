"""What a sensor is: how one source is read, and which metrics follow from two readings. Pure: only types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from lbdns_agent.asides import Steps
from lbdns_agent.host import Host

T = TypeVar("T")

#: A metric's number, or the reason why there is none, as an administrator should read it. A metric left out
#: has no value this round and needs no explanation: the first sample has no differences.
Values = Mapping[str, float | str]


@dataclass(frozen=True, slots=True)
class Sensor(Generic[T]):
    """One source of metrics.

    ``read`` raises anything when the source can't be read. ``values`` is pure: the reading before (None in the
    first round), this one, and the seconds between them. ``momentary`` sensors see what is now, so they are read
    before the agent's own questions put processes to work.
    """

    source: str
    read: Callable[[Host], T]
    values: Callable[[T | None, T, float], Values]
    momentary: bool = False
    #: For a metric so cheap that it may be watched between two samples, and the seconds that it needs to change.
    glance: Callable[[Host], Values] | None = None
    glance_every: float = 0.0


@dataclass(frozen=True, slots=True)
class AsideSensor(Generic[T]):
    """A sensor that waits for others (a server, a network), for at most ``patience`` seconds."""

    source: str
    read: Callable[[Host], Steps[T]]
    values: Callable[[T | None, T, float], Values]
    patience: float


def rate(before: float, now: float, seconds: float) -> float:
    """The increase of a counter in units/s; 0 when it fell back (a restart) or no time has passed."""
    return max(0.0, now - before) / seconds if seconds > 0 else 0.0
