"""What a sensor is: how to read one source, and how to compute its metrics from two readings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Union

from lbdns_agent.measured_host import MeasuredHost
from lbdns_agent.non_blocking_sensors import ReadingSteps

T = TypeVar("T")

#: Metric -> its number, or the reason why it has none, as text for an administrator. A metric that is not in
#: the map needs another reading: the first sample has no differences.
MetricValues = Mapping[str, Union[float, str]]


@dataclass(frozen=True)
class Sensor(Generic[T]):
    """One source of metrics that is read without waiting.

    ``read`` may raise any exception if the source can't be read. ``values`` is pure; its arguments are the previous
    reading (None at first), this reading, and the seconds between them. ``momentary`` sensors measure this very moment,
    so they are read before the agent's own requests put other processes to work."""

    source: str
    read: Callable[[MeasuredHost], T]
    values: Callable[[T | None, T, float], MetricValues]
    momentary: bool = False
    #: Reads a metric that is cheap enough for the checks between two samples, at this interval (seconds) at most
    quick_read: Callable[[MeasuredHost], MetricValues] | None = None
    quick_read_interval: float = 0.0
    #: Takes the same reading from the psutil module, where there is no /proc
    read_psutil: Callable[[Any], T] | None = None


@dataclass(frozen=True)
class NonBlockingSensor(Generic[T]):
    """One source of metrics that answers later, such as a server; a reading takes ``timeout`` seconds at most."""

    source: str
    read: Callable[[MeasuredHost], ReadingSteps[T]]
    values: Callable[[T | None, T, float], MetricValues]
    timeout: float


def newest_value(metric: str) -> Callable[[float | None, float, float], MetricValues]:
    """Return the ``values`` of a sensor whose reading is the value of its only metric."""
    return lambda before, now, seconds: {metric: float(now)}


def rate(before: float, now: float, seconds: float) -> float:
    """Return a counter's increase in units/s; 0 if the counter went back (a restart) or no time has passed."""
    return max(0.0, now - before) / seconds if seconds > 0 else 0.0
