"""The policy ``target``: keeps requests per server or CPU utilization at a target, like Kubernetes' horizontal
autoscaler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lbdns.config import value_readers as read
from lbdns.text.counts import counted
from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.policies.round_history import (
    DAY,
    LONGEST_PERIOD,
    covers,
    first_after,
    mean_rate,
    mean_rate_between,
    round_up,
    standing,
    within,
)
from lbdns_tools.scaler.policies.scaling_policy import Demand, FarmView, Recommendation

LEAST_STEP = 4  # servers that may always be added at once


@dataclass(frozen=True, slots=True)
class Target:
    """Multiplies the number of servers by value / target. The value is requests/s per server or CPU utilization.

    In one decision, the farm grows to at most twice its size, or by at most 4 servers if that is more. It never shrinks
    below the highest recommendation of the last ``stabilize`` seconds. Earlier recommendations are not stored; they are
    computed again from the demand in past rounds.

    Panic mode (as in Knative) begins when the mean over the panic window reaches ``panic_threshold`` times the target.
    Panic mode ends when this mean has stayed below ``panic_threshold`` times the target for the length of the stable
    window. In panic mode, servers are added immediately, based on the highest mean over any recent panic window, and no
    server is removed.
    """

    metric: Literal["requests", "cpu"] = read.one_of("requests", ("requests", "cpu"))
    utilization: float = read.number(70.0, 1.0, 100.0)  # target: % of the capacity, or % of CPU time
    per_server: float = read.number(0.0, 0.0, 1e6)  # target for "requests": requests/s; 0: from utilization
    tolerance: float = read.number(0.1, 0.0, 1.0)  # no change while value / target differs from 1 by less
    interval: float = read.duration(15.0, 0.0, 3600.0)  # between two decisions
    stabilize: float = read.duration(300.0, 0.0, DAY)
    warm_up: float = read.duration(60.0, 0.0, 3600.0)  # after joining, before a server's CPU counts
    panic: bool = read.flag(True)
    stable_window: float = read.duration(60.0, 1.0, 3600.0)
    panic_window: float = read.duration(6.0, 1.0, 3600.0)
    panic_threshold: float = read.number(2.0, 1.0, 100.0)  # times the target

    @property
    def history(self) -> float:
        return max(self.stabilize, 2 * self.stable_window) + self.panic_window + LONGEST_PERIOD

    def recommend(self, view: FarmView) -> Recommendation:
        present = standing(view)
        peak = self._panic_peak(view) if self.panic else None
        if peak is None and self._decided_lately(view):
            return Recommendation(present, f"The next decision is due within {self.interval:g} s.")
        ready = self._warm(view) or view.in_service
        demand = Demand(view.demand.time, mean_rate(view, self.stable_window), view.demand.cpu_percent)
        wanted = self._needed(demand, present, ready, view.capacity)
        value = f"With {self._value(demand, ready, view.capacity)}"
        if peak is not None:
            wanted = max(wanted, self._needed(peak, present, ready, view.capacity), present)
            value = f"Panic mode: with {self._value(peak, ready, view.capacity)}"
        if wanted > present:
            wanted = min(wanted, max(2 * present, present + LEAST_STEP))
            wanted = within(view, wanted)
            return Recommendation(wanted, f"{value}, the farm should have {counted(wanted, 'server')}.")
        if wanted < present:
            least = self._highest(view) if covers(view, self.stabilize) else present
            wanted = within(view, min(present, max(wanted, least)))
            most = f"the highest number needed in the last {self.stabilize:.0f} s"
            return Recommendation(wanted, f"{value}, the farm should have {counted(wanted, 'server')}, {most}.")
        return Recommendation(present, f"{value}, the farm keeps {counted(present, 'server')}.")

    def _decided_lately(self, view: FarmView) -> bool:
        """Return whether there was a decision in the current interval. Each interval begins at a multiple of its
        length, in Unix time."""
        if not view.rounds or not self.interval:
            return False
        return view.rounds[-1].demand.time // self.interval == view.demand.time // self.interval

    def _per_server(self, capacity: float) -> float:
        return self.per_server or capacity * self.utilization / 100

    def _ratio(self, demand: Demand, ready: int, capacity: float) -> float | None:
        """Return value / target, or None if it is not known."""
        if self.metric == "cpu":
            return None if demand.cpu_percent is None else demand.cpu_percent / self.utilization
        return demand.requests_per_s / (max(1, ready) * self._per_server(capacity))

    def _needed(self, demand: Demand, present: int, ready: int, capacity: float) -> int:
        """Return the number of servers needed for ``demand``, given that ``ready`` of the ``present`` servers are
        warm."""
        ratio, ready = self._ratio(demand, ready, capacity), max(1, ready)
        if ratio is None or abs(ratio - 1) <= self.tolerance + 1e-9:
            return present
        if ratio > 1 and present > ready:
            # Servers that are not warm count as idle, so that they are not asked for twice
            if ratio * ready / present <= 1 + self.tolerance:
                return present
            return max(present, round_up(ratio * ready))
        return round_up(ratio * ready)

    def _highest(self, view: FarmView) -> int:
        """Return the highest number of servers needed for any demand within the stabilization window."""
        rounds = view.rounds
        first = first_after(rounds, view.demand.time - self.stabilize)
        return max(
            (
                self._needed(past.demand, past.in_service, past.in_service, view.capacity)
                for past in (rounds[at] for at in range(first, len(rounds)))
            ),
            default=0,
        )

    def _panic_peak(self, view: FarmView) -> Demand | None:
        """Return the highest demand in the last stable window, or None if no demand reached the panic threshold.

        The demands are means over the panic window.
        """
        rounds = view.rounds
        found = [(view.demand, view.in_service)]
        first = first_after(rounds, view.demand.time - self.stable_window)
        found += [(rounds[at].demand, rounds[at].in_service) for at in range(first, len(rounds))]
        panics, demands = False, []
        for each, servers in found:
            rate = mean_rate_between(view, each.time - self.panic_window, each.time)
            demand = Demand(each.time, each.requests_per_s if rate is None else rate, each.cpu_percent)
            ratio = self._ratio(demand, servers, view.capacity)
            panics = panics or (ratio is not None and ratio >= self.panic_threshold)
            demands.append(demand)
        if not panics:
            return None
        by_cpu = self.metric == "cpu"
        return max(demands, key=lambda demand: (demand.cpu_percent or 0.0) if by_cpu else demand.requests_per_s)

    def _warm(self, view: FarmView) -> int:
        return sum(
            server.state is ServerState.IN_SERVICE and view.now - server.since >= self.warm_up
            for server in view.servers
        )

    def _value(self, demand: Demand, ready: int, capacity: float) -> str:
        if self.metric == "cpu":
            cpu = demand.cpu_percent
            return (
                "unknown CPU utilization"
                if cpu is None
                else f"{cpu:.0f}% CPU utilization (target: {self.utilization:g}%)"
            )
        each = demand.requests_per_s / max(1, ready)
        return f"{each:.1f} requests/s per server (target: {self._per_server(capacity):.1f})"
