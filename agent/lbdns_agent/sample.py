"""One sample: every sensor read once, its metrics taken from this reading and the one before."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lbdns.errors import LbdnsError
from lbdns_agent.absent import SwitchedOffError
from lbdns_agent.asides import Answer, Aside, Asides
from lbdns_agent.host import Host
from lbdns_agent.metrics import METRICS, Metric
from lbdns_agent.sensor import AsideSensor, Sensor, Values
from lbdns_agent.troubles import Troubles

SHORTEST_DIFFERENCE: Final = 0.05  # seconds: the kernel counts processor time in ticks of 0.01 s


@dataclass(frozen=True, slots=True)
class Sample:
    """``metrics``: what could be measured; ``missing``: the other metrics, each with the reason."""

    metrics: Mapping[str, float]
    missing: Mapping[str, str]


@dataclass(slots=True)
class _State:
    """A sensor between two samples."""

    sensor: Sensor[Any] | AsideSensor[Any]
    names: tuple[str, ...]
    aside: Aside | None = None  # of an AsideSensor
    before: Any = None
    before_at: float = 0.0
    seen_at: float = 0.0  # by a sample or a glance


class Sampler:
    """Takes samples of ``host``. ``asides`` is where those readings go on that wait for others."""

    def __init__(self, host: Host, asides: Asides, metrics: Mapping[str, Metric] = METRICS) -> None:
        self._host = host
        self._metrics = metrics
        self._asides = asides
        self._troubles = Troubles()
        names: dict[int, list[str]] = {}
        for name, metric in metrics.items():
            names.setdefault(id(metric.sensor), []).append(name)
        sensors = {id(metric.sensor): metric.sensor for metric in metrics.values()}
        self._states = [_State(sensor, tuple(names[key])) for key, sensor in sensors.items()]
        for state in self._states:
            if isinstance(state.sensor, AsideSensor):
                begin = functools.partial(state.sensor.read, host)
                state.aside = asides.add(begin, state.sensor.patience)
        self._glances = [
            (state, state.sensor, state.sensor.glance)
            for state in self._states
            if isinstance(state.sensor, Sensor) and state.sensor.glance is not None
        ]

    def sample(self, wait: float, interval: float) -> Sample:
        """Read everything. Sensors that need others' answers are waited for at most ``wait`` seconds; an answer
        that came late counts as long as it is not older than ``interval`` seconds.

        What is momentary is read first: the agent's own questions put processes to work. The rest is read while
        these are being answered.
        """
        found: dict[str, float] = {}
        missing: dict[str, str] = {}
        self._host.new_round()
        end = time.monotonic() + wait
        self._read(True, found, missing)
        self._asides.start()
        self._read(False, found, missing)
        self._asides.settle(end)
        oldest = time.monotonic() - interval
        for state in self._states:
            if state.aside is not None:
                answer = state.aside.take(oldest) or Answer(TimeoutError("no answer in time"), 0.0)
                self._take(state, answer, found, missing)
        ordered = {name: found[name] for name in self._metrics if name in found}
        return Sample(ordered, missing)

    def glance(self, names: frozenset[str]) -> dict[str, float]:
        """The momentary metrics among ``names`` as they are now, as far as they are cheap to know and due."""
        self._host.new_round()
        found: dict[str, float] = {}
        now = time.monotonic()
        for state, sensor, glance in self._glances:
            if now - state.seen_at < sensor.glance_every or names.isdisjoint(state.names):
                continue
            state.seen_at = now
            try:
                values = glance(self._host)
            except Exception:  # the next sample meets it too, and tells
                continue
            found.update((name, value) for name, value in values.items() if isinstance(value, float))
        return found

    def _read(self, momentary: bool, found: dict[str, float], missing: dict[str, str]) -> None:
        """Read the sensors that don't wait for anybody."""
        for state in self._states:
            sensor = state.sensor
            if isinstance(sensor, Sensor) and sensor.momentary == momentary:
                try:
                    value = sensor.read(self._host)
                except Exception as error:  # whatever it is, it costs this sensor's metrics, not the agent
                    value = error.with_traceback(None)
                state.seen_at = time.monotonic()
                self._take(state, Answer(value, state.seen_at), found, missing)

    def _take(self, state: _State, answer: Answer, found: dict[str, float], missing: dict[str, str]) -> None:
        """Turn a reading into metrics, and what it lacks into reasons."""
        values: Values = {}
        error = answer.value if isinstance(answer.value, Exception) else None
        if error is None:
            try:
                values = _values(state, answer)
            except Exception as failed:
                error = failed.with_traceback(None)
        if error is not None:
            values = dict.fromkeys(state.names, reason_of(error, state.sensor.source))
        broken: dict[str, str] = {}
        for name in state.names:
            value = values.get(name, "")
            if isinstance(value, str):
                missing[name] = value or "it takes two samples"
                if value:
                    broken[name] = value
            elif math.isfinite(value):
                found[name] = value
            else:
                missing[name] = broken[name] = f"{state.sensor.source}: {value} is no number"
        self._troubles.note(state.names[0], {} if isinstance(error, SwitchedOffError) else broken)


def _values(state: _State, answer: Answer) -> Values:
    """The metrics of a reading, with the differences to the last one if that is not from just now."""
    seconds = answer.at - state.before_at
    if state.before is not None and seconds < SHORTEST_DIFFERENCE:
        values: Values = state.sensor.values(None, answer.value, 0.0)
        return values
    values = state.sensor.values(state.before, answer.value, seconds if state.before is not None else 0.0)
    state.before, state.before_at = answer.value, answer.at
    return values


def reason_of(error: Exception, source: str) -> str:
    """What an exception says to an administrator, on one line."""
    if isinstance(error, LbdnsError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{source}: {where}{error.strerror}"
    if isinstance(error, (ValueError, TimeoutError)):
        return f"{source}: {error}"
    return f"{source}: unexpected {type(error).__name__}: {error}"
