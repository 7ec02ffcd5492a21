"""Takes samples of a host: reads every sensor once, and computes metrics from each sensor's last two readings."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lbdns_agent.metrics import METRIC_SENSORS, AnySensor
from lbdns_agent.missing_values import LINUX_ONLY, FailureLog, SwitchedOffError, failure_reason
from lbdns_agent.non_blocking_sensors import SensorTask, SensorTasks, TimedReading
from lbdns_agent.sensor import MeasuredHost, MetricValues, Sensor

SHORTEST_DIFFERENCE: Final = 0.05  # seconds: the kernel counts processor time in ticks of 0.01 s


@dataclass(frozen=True)
class HostSample:
    """One sample: the metrics that could be measured, and the reasons why the other metrics are missing."""

    metrics: Mapping[str, float]
    missing: Mapping[str, str]


@dataclass
class _SensorState:
    sensor: AnySensor
    names: tuple[str, ...]
    read: Callable[[], Any]  # bound to the host
    task: SensorTask | None = None  # of a NonBlockingSensor
    before: Any = None
    before_at: float = 0.0
    read_at: float = 0.0  # time of the last sample or quick read


class HostSampler:
    """Measures the metrics of ``host``. ``tasks`` runs the non-blocking sensors."""

    def __init__(
        self, host: MeasuredHost, tasks: SensorTasks, sensors: Mapping[str, AnySensor] = METRIC_SENSORS
    ) -> None:
        self._host = host
        self._tasks = tasks
        self._metrics = tuple(sensors)
        self._failures = FailureLog()
        names: dict[int, list[str]] = {}
        for name, sensor in sensors.items():
            names.setdefault(id(sensor), []).append(name)
        by_id = {id(sensor): sensor for sensor in sensors.values()}
        self._states = [_SensorState(sensor, tuple(names[key]), _reader(sensor, host)) for key, sensor in by_id.items()]
        for state in self._states:
            if not isinstance(state.sensor, Sensor):
                state.task = tasks.add(state.read, state.sensor.timeout)
        self._quick_reads = [
            (state, state.sensor.quick_read_interval, functools.partial(state.sensor.quick_read, host))
            for state in self._states
            if isinstance(state.sensor, Sensor) and state.sensor.quick_read is not None and host.psutil is None
        ]

    def sample(self, wait: float, interval: float) -> HostSample:
        """Read every sensor and return the sample.

        This method waits up to ``wait`` seconds for non-blocking sensors. A result that arrives too late is used in the
        next sample, unless it is more than ``interval`` seconds old by then.
        """
        # The agent's own requests put processes to work, so momentary sensors are read first, the others meanwhile
        found: dict[str, float] = {}
        missing: dict[str, str] = {}
        self._host.start_round()
        end = time.monotonic() + wait
        self._read(True, found, missing)
        self._tasks.start()
        self._read(False, found, missing)
        self._tasks.settle(end)
        oldest = time.monotonic() - interval
        for state in self._states:
            if state.task is not None:
                result = state.task.take(oldest) or TimedReading(TimeoutError("no response in time"), 0.0)
                self._take(state, result, found, missing)
        ordered = {name: found[name] for name in self._metrics if name in found}
        return HostSample(ordered, missing)

    def quick_read(self, names: frozenset[str]) -> dict[str, float]:
        """Return the current values of all metrics in ``names`` that are cheap to read and due for a reading."""
        self._host.start_round()
        found: dict[str, float] = {}
        now = time.monotonic()
        for state, interval, quick_read in self._quick_reads:
            if now - state.read_at < interval or names.isdisjoint(state.names):
                continue
            state.read_at = now
            try:
                values = quick_read()
            except Exception:  # the next sample meets the same error and logs it
                continue
            found.update((name, value) for name, value in values.items() if isinstance(value, float))
        return found

    def _read(self, momentary: bool, found: dict[str, float], missing: dict[str, str]) -> None:
        for state in self._states:
            if isinstance(state.sensor, Sensor) and state.sensor.momentary == momentary:
                try:
                    value = state.read()
                except Exception as error:  # no error may affect more than this sensor's metrics
                    value = error.with_traceback(None)
                state.read_at = time.monotonic()
                self._take(state, TimedReading(value, state.read_at), found, missing)

    def _take(
        self, state: _SensorState, reading: TimedReading, found: dict[str, float], missing: dict[str, str]
    ) -> None:
        values: MetricValues = {}
        error = reading.value if isinstance(reading.value, Exception) else None
        if error is None:
            try:
                values = _metric_values(state, reading)
            except Exception as failed:
                error = failed.with_traceback(None)
        if error is not None:
            values = dict.fromkeys(state.names, failure_reason(error, state.sensor.source))
        failures: dict[str, str] = {}
        for name in state.names:
            value = values.get(name, "")
            if isinstance(value, str):
                missing[name] = value or "this metric needs two samples"
                if value:
                    failures[name] = value
            elif math.isfinite(value):
                found[name] = value
            else:
                missing[name] = failures[name] = f"{state.sensor.source}: {value} is not a finite number"
        self._failures.note(state.names[0], {} if isinstance(error, SwitchedOffError) else failures)


def _reader(sensor: AnySensor, host: MeasuredHost) -> Callable[[], Any]:
    if host.psutil is not None and isinstance(sensor, Sensor):
        return functools.partial(sensor.read_psutil or _raise_unsupported, host.psutil)
    return functools.partial(sensor.read, host)


def _raise_unsupported(psutil: Any) -> Any:
    raise SwitchedOffError(LINUX_ONLY)


def _metric_values(state: _SensorState, reading: TimedReading) -> MetricValues:
    """Return a reading's metrics.

    A reading that follows the previous one too soon yields no rates and isn't stored.
    """
    seconds = reading.at - state.before_at
    if state.before is not None and seconds < SHORTEST_DIFFERENCE:
        values: MetricValues = state.sensor.values(None, reading.value, 0.0)
        return values
    values = state.sensor.values(state.before, reading.value, seconds if state.before is not None else 0.0)
    state.before, state.before_at = reading.value, reading.at
    return values
