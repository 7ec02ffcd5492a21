"""Contention: the fraction of a web server's capacity that remains while other programs run on its host.

The estimated capacity assumes that no other program uses the host's CPUs. While other programs run, the web server gets
fewer CPU seconds and waits longer for CPU time. Without a correction of the estimated capacity, a server that gets too
little CPU time would seem nearly idle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

MEMORY: Final = 2.0  # s: time constant with which old observations fade
PRIOR: Final = 0.5  # requests in progress for a second: weight of the prior belief that no other program runs


class Contention:
    """Estimates how much capacity other programs left for a member's web server during the last few seconds."""

    def __init__(self) -> None:
        self._last: Mapping[str, float] | None = None
        # Sums of seconds; the newest counts most. Products with the load are sums too, because cores enter only later
        self._used = self._used_load = self._idle = self._idle_load = self._load = 0.0

    def observe(self, metrics: Mapping[str, float], seconds: float) -> None:
        """Record the metrics of a report that came ``seconds`` after the previous report.

        A report that lacks CPU times or busy workers does not change the estimate.
        """
        last, self._last = self._last, metrics
        needed = ("httpd_cpu_seconds", "cpu_idle", "busy_workers")
        if last is None or seconds <= 0 or any(name not in metrics or name not in last for name in needed):
            return
        used = metrics["httpd_cpu_seconds"] - last["httpd_cpu_seconds"]
        if used < 0:
            return  # the web server has restarted
        idle = seconds * min(1.0, max(0.0, metrics["cpu_idle"] / 100))
        load = (_in_progress(last) + _in_progress(metrics)) / 2
        fading = math.exp(-seconds / MEMORY)
        self._used = self._used * fading + used
        self._used_load = self._used_load * fading + used * load
        self._idle = self._idle * fading + idle
        self._idle_load = self._idle_load * fading + idle * load
        self._load = self._load * fading + seconds * load

    def available_share(self, cores: float) -> float:
        """Return the fraction of the web server's capacity that other programs leave free: more than 0, at most 1.

        ``cores`` is the number of cores that count for the member. If a member reports more cores than it has, the
        result is too low: other programs seem to use the cores that do not exist.
        """
        # With n requests in progress, one core of capacity c serves c * n / (n + 1) requests/s (M/M/1). A server that
        # serves r requests/s therefore has a capacity of r * (n + 1) / n. Idle CPU time was available to it as well
        parallel = max(1.0, cores)
        got = (self._used_load + parallel * self._used) / cores + self._idle_load + parallel * self._idle
        return min(1.0, (got + PRIOR) / (self._load + parallel * self._idle + PRIOR))


def _in_progress(metrics: Mapping[str, float]) -> float:
    return max(0.0, metrics["busy_workers"]) + max(0.0, metrics.get("listen_queue", 0.0))
