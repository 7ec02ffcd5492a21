"""Computes the response times of a replay with a queueing model: their mean and a percentile."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from lbdns_tools.queueing_theory import mean_response, share_slower

STEPS: Final = 200  # utilizations are grouped to half a percent
#: A server that refuses the requests beyond its capacity keeps a bounded queue; this utilization stands for it
BUSIEST: Final = 0.98
BISECTIONS: Final = 40


class ModelledResponseTimes:
    """Counts requests by the utilization of the server that served them, and computes response times with the M/M/c
    model.
    """

    def __init__(self, service_time: float, cores: float) -> None:
        self._cores = max(1, round(cores))
        self._service_time = service_time * self._cores / cores  # a fraction of a core makes the others slower
        self._requests: dict[int, float] = defaultdict(float)

    def add(self, utilization: float, requests: float) -> None:
        """Count ``requests`` by the utilization (0 to 1) of the server that served them."""
        self._requests[round(min(BUSIEST, utilization) * STEPS)] += requests

    def mean(self) -> float:
        """Return the mean response time in seconds, or 0 if there were no requests."""
        total = sum(self._requests.values())
        if not total:
            return 0.0
        rate = self._cores / self._service_time / STEPS
        means = {step: mean_response(self._cores, self._service_time, step * rate) or 0.0 for step in self._requests}
        return sum(means[step] * requests for step, requests in self._requests.items()) / total

    def percentile(self, percent: float) -> float:
        """Return the ``percent`` percentile of the response times in seconds, or 0 if there were no requests."""
        total = sum(self._requests.values())
        if not total:
            return 0.0
        slower, low, high = 1 - percent / 100, 0.0, 1.0
        while self._slower(high) > slower * total:
            high *= 2
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            if self._slower(middle) > slower * total:
                low = middle
            else:
                high = middle
        return high * self._service_time

    def _slower(self, factor: float) -> float:
        """Return the number of requests whose response takes longer than ``factor`` times the mean service time."""
        load = self._cores / STEPS
        return sum(n * share_slower(self._cores, step * load, factor) for step, n in self._requests.items())
