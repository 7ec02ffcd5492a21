"""Checks members' reported metrics: implausible values are dropped, and loads and core counts are limited."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from lbdns.choosing.robust_estimates import robust_mean, winsorised

MORE_CORES: Final = 4.0  # times the pool's median number of cores: the most that counts, unless configured otherwise
MAX_LOAD: Final = 1e5  # requests in progress: no web server has more
ONE_CORE: Final = 1.0  # counts as the median where it cannot be trusted: few web servers have less, ...
MIN_CORES: Final = 1e-3  # ... and no quota is smaller ...
MAX_CORES: Final = 1e6  # ... and no machine larger
MAX_VALUE: Final = 1e15  # requests or seconds: above it, sums of floats lose single units


def loads(metrics: Sequence[Mapping[str, float]], capacity: Sequence[float]) -> tuple[float, ...]:
    """Return each member's load (see ``load_of`` and ``filled_loads``), given its metrics."""
    return filled_loads([load_of(member) for member in metrics], capacity)


def filled_loads(known: Sequence[float | None], capacity: Sequence[float]) -> tuple[float, ...]:
    """Return each member's load, in requests or runnable tasks; ``known`` contains None for members that report none.

    A member that reports no load is assumed to have the same ratio of load to capacity as the other members combined.
    If three or more members report loads, no single member determines this ratio. If only two members report loads, the
    less loaded member determines it. Without these rules, a single false load could keep all requests away from the
    members that report no load.
    """
    if None not in known:
        return tuple(load for load in known if load is not None)
    found = [(load / c, c) for load, c in zip(known, capacity, strict=True) if load is not None and c > 0]
    ratios = [ratio for ratio, _ in found]
    level = robust_mean(ratios, [c for _, c in found]) if len(found) > 2 else min(ratios, default=0.0)
    return tuple(level * c if load is None else load for load, c in zip(known, capacity, strict=True))


def plausible(metrics: Mapping[str, float]) -> Mapping[str, float]:
    """Return ``metrics`` without impossible values, so that one broken agent cannot distort the pool's totals.

    A value below 0 is impossible. Negative requests/s, for example, would lower the number of expected requests.
    """
    if not metrics:
        return metrics
    # The usual case needs no call per metric. The sum is NaN if any metric is NaN
    values, cores = metrics.values(), metrics.get("cpu_count", MIN_CORES)
    in_range = min(values) >= 0 and max(values) <= MAX_VALUE and MIN_CORES <= cores <= MAX_CORES
    if in_range and not math.isnan(sum(values)):
        return metrics
    return dict(filter(_is_plausible, metrics.items()))


def _is_plausible(metric: tuple[str, float]) -> bool:
    name, value = metric
    return MIN_CORES <= value <= MAX_CORES if name == "cpu_count" else 0 <= value <= MAX_VALUE


def load_of(metrics: Mapping[str, float]) -> float | None:
    """Return the number of a member's requests that are in progress or waiting to be accepted, or None if unknown.

    If all workers of a web server are busy, further requests wait in the listen queue. Without ``busy_workers``, the
    load is the run queue or the listen queue, whichever is longer. The listen queue alone is not sufficient, because it
    is empty on every server that keeps up with its requests.
    """
    waiting, run_queue = metrics.get("listen_queue", 0.0), metrics.get("run_queue")
    if "busy_workers" in metrics:
        return min(MAX_LOAD, max(0.0, metrics["busy_workers"] + max(0.0, waiting), run_queue or 0.0))
    return None if run_queue is None else min(MAX_LOAD, max(0.0, run_queue, waiting))


def counted_cores(reported: Sequence[float | None], most: float = 0.0) -> list[float]:
    """Return the number of cores counted for each member.

    Each member's count is limited to ``most`` cores; if ``most`` is 0, the limit is ``MORE_CORES`` times the pool's
    median. A member that reports no cores is assumed to have as many cores as the other members have on average, or 1
    core if no member reports its cores. If three or more members report their cores, no single member determines the
    median or the mean.
    """
    known = [cores for cores in reported if cores is not None and cores > 0]
    if not known:
        return [1.0] * len(reported)
    # Of two, the smaller one: a single member cannot raise it, nor lower it to nothing
    median = statistics.median_low(known) if len(known) > 2 else max(ONE_CORE, min(known))
    most = most or MORE_CORES * median
    mean = statistics.fmean(winsorised([min(cores, most) for cores in known]))
    return [mean if cores is None or cores <= 0 else min(cores, most) for cores in reported]
