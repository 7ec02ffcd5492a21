"""Samples the selected metrics of the agent, and formats each sample as a row of a CSV table."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lbdns_agent.agent_options import AgentOptions
from lbdns_agent.host_sampler import HostSampler
from lbdns_agent.metrics import METRIC_SENSORS
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_agent.recorder.disk_table import time_with_zone
from lbdns_agent.sensor import open_host

LONGEST_WAIT: Final = 0.25  # seconds, and share of the interval, for which a row waits for non-blocking sensors
FIRST_PERIOD: Final = 0.5  # maximum seconds between the two readings before the first row


class MetricsSource:
    """Measures this host's metrics that are listed in ``names``. ``tasks`` runs the sensors that wait for the web
    server and the gateway."""

    def __init__(self, names: Sequence[str], options: AgentOptions, tasks: SensorTasks, proc: str = "/proc") -> None:
        """Raises LbdnsError if this host can't be measured."""
        self._names = names
        self._interval = options.interval
        sensors = {name: METRIC_SENSORS[name] for name in names}
        self._sampler = HostSampler(open_host(options, proc), tasks, sensors)

    def begin(self) -> float:
        """Take the initial sample, which is the baseline for the rates in the first row.

        Return the time at which the first row is due, in monotonic seconds.
        """
        start = time.monotonic()
        self._sample()
        return start + min(self._interval, FIRST_PERIOD)

    def take(self, clock: Callable[[], float]) -> tuple[str, list[str]]:
        """Return the header and one row."""
        metrics = self._sample()
        return header(self._names), [row(time_with_zone(clock()), self._names, metrics)]

    def _sample(self) -> Mapping[str, float]:
        return self._sampler.sample(min(LONGEST_WAIT, LONGEST_WAIT * self._interval), self._interval).metrics


def header(names: Sequence[str]) -> str:
    """Return the header of a table of metrics. Pure."""
    return ",".join(["time", *names])


def row(now: str, names: Sequence[str], metrics: Mapping[str, float]) -> str:
    """Return a row with the value of each metric, rounded to three decimal places; missing metrics are empty. Pure."""
    return ",".join([now, *(_number(metrics[name]) if name in metrics else "" for name in names)])


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3f}"
