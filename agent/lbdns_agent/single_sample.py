"""``--once``: takes a single sample and formats it as a table for people or as JSON for programs."""

from __future__ import annotations

import json
import time
from typing import Final

from lbdns_agent.agent_options import AgentOptions
from lbdns_agent.host_sampler import HostSample, HostSampler
from lbdns_agent.measured_host import open_host
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_shared.metric_catalogue import CATALOGUE

LONGEST_GAP: Final = 0.5  # seconds between the two readings, however long the interval: a person is waiting
TIMEOUT: Final = 0.4  # seconds to wait for the web server and the gateway


def take_single_sample(options: AgentOptions) -> tuple[HostSample, float]:
    """Return a sample and the seconds that its differences span. Raises LbdnsError if the host can't be measured."""
    sampler = HostSampler(open_host(options), SensorTasks())
    start = time.monotonic()
    sampler.sample(TIMEOUT, TIMEOUT)
    gap = min(options.interval, LONGEST_GAP)
    time.sleep(max(0.0, start + gap - time.monotonic()))
    span = time.monotonic() - start
    return sampler.sample(TIMEOUT, TIMEOUT), span


def sample_as_json(options: AgentOptions, sample: HostSample, span: float, now: float) -> str:
    """Return the sample as a JSON object; ``unavailable`` maps each missing metric to the reason. Pure."""
    return json.dumps(
        {
            "host": options.name,
            "time": round(now, 3),
            "interval": options.interval,
            "span": round(span, 3),
            "metrics": dict(sample.metrics),
            "unavailable": dict(sample.missing),
        },
        indent=2,
    )


def sample_as_table(options: AgentOptions, sample: HostSample, span: float) -> str:
    """Return the sample as text, one metric a line in the order of the catalogue. Pure."""
    lines = [f"{options.name}, differences over {span:.2f} s"]
    for name, metric in CATALOGUE.items():
        if name in sample.metrics:
            lines.append(f"{name:<18} {_number(sample.metrics[name]):>12}  {metric.unit}")
        else:
            lines.append(f"{name:<18} {'-':>12}  {sample.missing.get(name, '')}")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"
