"""Takes a single sample of the host for ``--once``, and formats it as a table or as JSON."""

from __future__ import annotations

import json
import time
from typing import Final, NamedTuple

from lbdns_agent.agent_options import AgentOptions
from lbdns_agent.configured_sensors import configured_sensors
from lbdns_agent.host_sampler import HostSample, HostSampler
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_agent.sensor import open_host
from lbdns_shared.metric_catalogue import CATALOGUE

LONGEST_TIMEOUT: Final = 5.5  # seconds to wait for the sources of metrics in the configuration file
TIMEOUT: Final = 0.4  # seconds to wait for the web server and the gateway
LONGEST_GAP: Final = 0.5  # maximum seconds between the two readings, because a person is waiting


class SingleSample(NamedTuple):
    """A sample, the length in seconds of the period that its rates cover, and the measured web server."""

    sample: HostSample
    span: float
    web_server: str


def take_single_sample(options: AgentOptions) -> SingleSample:
    """Return a sample. Raises LbdnsError if the host can't be measured."""
    sensors, describe_web_server = configured_sensors(options)
    sampler = HostSampler(open_host(options), SensorTasks(), sensors)
    # A command may take longer than a server, and the first sample ends as soon as the slowest source has responded
    wait = LONGEST_TIMEOUT if options.metrics else TIMEOUT
    start = time.monotonic()
    sampler.sample(wait, wait)
    gap = min(options.interval, LONGEST_GAP)
    time.sleep(max(0.0, start + gap - time.monotonic()))
    span = time.monotonic() - start
    return SingleSample(sampler.sample(wait, wait), span, describe_web_server())


def sample_as_json(options: AgentOptions, single: SingleSample, now: float) -> str:
    """Return the sample as a JSON object, in which ``unavailable`` maps each missing metric to the reason. Pure."""
    return json.dumps(
        {
            "host": options.name,
            "time": round(now, 3),
            "interval": options.interval,
            "span": round(single.span, 3),
            "web_server": single.web_server or None,
            "metrics": dict(single.sample.metrics),
            "unavailable": dict(single.sample.missing),
        },
        indent=2,
    )


def sample_as_table(options: AgentOptions, single: SingleSample) -> str:
    """Return the sample as text, with one metric per line: first those of the metric catalogue, in its order. Pure."""
    sample = single.sample
    lines = [f"{options.name}, measured over {single.span:.2f} s; web server: {single.web_server or 'not found'}"]
    for name in dict.fromkeys((*options.metric_names(), *sample.metrics, *sample.missing)):
        unit = CATALOGUE[name].unit if name in CATALOGUE else ""
        if name in sample.metrics:
            lines.append(f"{name:<18} {_number(sample.metrics[name]):>12}  {unit}".rstrip())
        else:
            lines.append(f"{name:<18} {'-':>12}  {sample.missing.get(name, '')}")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"
