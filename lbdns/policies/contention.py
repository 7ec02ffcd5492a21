"""What part of its host a web server can have beside other work, as seen over the last seconds. Pure.

Capacity is what a web server's own CPU seconds do, all of them on its host being its own. With other programs there it
gets less of them, and waits longer for those: by its capacity alone it would seem to be nearly empty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

MEMORY: Final = 2.0  # s: time constant with which old observations fade
PRIOR: Final = 0.5  # requests at work for a second: how much outweighs the belief that there is no other work


class Contention:
    """One member's web server beside whatever else its host does."""

    def __init__(self) -> None:
        self._had = self._wanted = 0.0
        self._last: Mapping[str, float] | None = None

    def observe(self, metrics: Mapping[str, float], seconds: float) -> None:
        """A new report, ``seconds`` after the one before. Without CPU times and busy workers nothing is learned."""
        last, self._last = self._last, metrics
        needed = ("httpd_cpu_seconds", "cpu_idle", "busy_workers")
        if last is None or seconds <= 0 or any(name not in metrics or name not in last for name in needed):
            return
        cores = metrics.get("cpu_count", 1.0)
        used = (metrics["httpd_cpu_seconds"] - last["httpd_cpu_seconds"]) / (cores * seconds)
        if used < 0:
            return  # the web server has begun anew
        idle = min(1.0, max(0.0, metrics["cpu_idle"] / 100))
        load = (_at_work(last) + _at_work(metrics)) / 2
        lanes = max(1.0, cores)
        fading = math.exp(-seconds / MEMORY)
        # With n at work and c the capacity, one core serves c * n / (n + 1) requests/s (M/M/1): who serves r of n has
        # a capacity of r * (n + 1) / n. Who leaves CPU idle could have had that too
        self._had = self._had * fading + seconds * (used + idle) * (load + lanes)
        self._wanted = self._wanted * fading + seconds * (load + idle * lanes)

    @property
    def left(self) -> float:
        """What part of its capacity the web server has, at most 1."""
        return min(1.0, (self._had + PRIOR) / (self._wanted + PRIOR))


def _at_work(metrics: Mapping[str, float]) -> float:
    return max(0.0, metrics["busy_workers"]) + max(0.0, metrics.get("listen_queue", 0.0))
