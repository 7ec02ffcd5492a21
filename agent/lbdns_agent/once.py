"""``--once``: one sample for people (a table) or programs (JSON), and nothing sent."""

from __future__ import annotations

import json
import time
from typing import Final

from lbdns_agent.asides import Asides
from lbdns_agent.metrics import METRICS
from lbdns_agent.options import Options
from lbdns_agent.run import look_at
from lbdns_agent.sample import Sample, Sampler

GAP: Final = 0.5  # seconds between the two readings at most; nobody wants to wait for a long interval
PATIENCE: Final = 0.4  # seconds for the answers of others: somebody is waiting


def take_one(options: Options) -> tuple[Sample, float]:
    """A sample with its differences, and the seconds that these span. Raises ConfigError."""
    sampler = Sampler(look_at(options), Asides())
    start = time.monotonic()
    sampler.sample(PATIENCE, PATIENCE)
    gap = min(options.interval, GAP)
    time.sleep(max(0.0, start + gap - time.monotonic()))
    span = time.monotonic() - start
    return sampler.sample(PATIENCE, PATIENCE), span


def as_json(options: Options, sample: Sample, span: float, now: float) -> str:
    """``unavailable`` says why of every metric that is not in ``metrics``. Pure."""
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


def as_table(options: Options, sample: Sample, span: float) -> str:
    """One line a metric, in the order of the table of metrics. Pure."""
    lines = [f"{options.name}, differences over {span:.2f} s"]
    for name, metric in METRICS.items():
        if name in sample.metrics:
            lines.append(f"{name:<18} {_number(sample.metrics[name]):>12}  {metric.unit}")
        else:
            lines.append(f"{name:<18} {'-':>12}  {sample.missing.get(name, '')}")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"
