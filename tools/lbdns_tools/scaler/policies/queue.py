"""The policy ``queue``: enough servers for the offered load, plus a reserve that keeps waiting times short."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

from lbdns.config import value_readers as read
from lbdns.text.counts import counted
from lbdns_tools.queueing_theory import offered_within
from lbdns_tools.scaler.policies.delayed_off import delayed_off
from lbdns_tools.scaler.policies.revenue_model import CORES, HOUR
from lbdns_tools.scaler.policies.round_history import DAY, LONGEST_PERIOD, round_up, standing, within
from lbdns_tools.scaler.policies.scaling_policy import FarmView, Recommendation

LATE_SHARE = 0.05  # 1 - 95 %


@dataclass(frozen=True, slots=True)
class Queue:
    """Square-root staffing: for the offered load R = rate x service time, the farm has R + beta sqrt(R) processors.

    ``beta`` is computed from ``wait_p95`` with Halfin and Whitt's formula for the waiting time of M/M/c. Scaling in is
    delayed (``delayed_off``).
    """

    wait_p95: float = read.number(0.05, 0.001, 3600.0)  # s: 95 % of the requests wait no longer for a processor
    beta: float = read.number(0.0, 0.0, 50.0)  # 0: from wait_p95
    cores: float = read.number(float(CORES), 0.05, 1024.0)  # processors of a server
    delay_in: float = read.duration(300.0, 0.0, DAY)  # how long fewer servers must suffice before some go
    margin_in: float = read.number(0.1, 0.0, 1.0)  # fraction by which the rate must be able to rise afterwards
    billing_period: float = read.duration(
        HOUR, 0.0, DAY
    )  # paid in full once it has begun; 0: the provider bills by the second

    @property
    def history(self) -> float:
        return self.delay_in + LONGEST_PERIOD

    def recommend(self, view: FarmView) -> Recommendation:
        return self.decide(view, view.demand.requests_per_s, "")

    def decide(self, view: FarmView, ahead: float, why: str, spare: int = 0) -> Recommendation:
        """Return the recommendation for the current rate, or for the rate ``ahead`` if that needs more servers.

        If the higher number results from ``ahead``, the recommendation gives ``why`` as its reason. ``spare`` servers
        are added to the number for ``ahead``.
        """
        present, rate = standing(view), view.demand.requests_per_s

        def needed(rate: float) -> int:
            return within(view, self.servers(rate, view.capacity))

        now, later = needed(rate), within(view, self.servers(ahead, view.capacity) + spare)
        if max(now, later) > present:
            if now >= later:
                return Recommendation(now, self._reason(rate, view.capacity, now))
            return Recommendation(later, why)
        least = max(now, later)

        def kept(rate: float) -> int:
            return max(least, needed(rate))

        removal = delayed_off(view, present, kept, self.delay_in, self.margin_in, self.billing_period)
        return removal or Recommendation(present, self._reason(rate, view.capacity, now, present))

    def servers(self, rate: float, capacity: float) -> int:
        """Return the number of servers for ``rate`` requests/s, at least 1."""
        offered = max(0.0, rate) * self.cores / capacity  # in processors
        if self.beta:
            return max(1, round_up((offered + self.beta * sqrt(offered)) / self.cores))
        times = self.wait_p95 * capacity / self.cores
        servers = max(1, round_up(offered / self.cores))
        while _most_offered(servers * self.cores, times) < offered:
            servers += 1
        return servers

    def _reason(self, rate: float, capacity: float, needed: int, kept: int = 0) -> str:
        servers = counted(needed, "server")
        need = f"{rate:.1f} requests/s need {servers} at {capacity:.1f} requests/s each, including a reserve"
        return f"{need}; the farm keeps {kept} for now." if kept > needed else f"{need}."


@lru_cache(maxsize=4096)
def _most_offered(processors: float, times: float) -> float:
    return offered_within(processors, times, LATE_SHARE)
