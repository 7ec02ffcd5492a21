"""Estimates how many requests/s one server can serve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Final

from lbdns_tools.scaler.demand.demand_source import ServerLoad
from lbdns_tools.scaler.life_cycle.server_record import ServerRecord
from lbdns_tools.scaler.life_cycle.server_state import ServerState

LEAST: Final = 10.0  # requests/s assumed of an unknown server, as in the reactive scaler of 2014


class ServerCapacity:
    """The capacity of a typical server: configured, or else estimated from reports, or else benchmarked.

    Until one of these capacities is known, the assumed capacity is the highest rate that any single server has served
    so far. That rate is a lower bound, so the farm is more likely to be too large than too small.
    """

    def __init__(self, configured: float) -> None:
        """``configured`` is in requests/s; 0 means that the capacity is estimated."""
        self._configured = configured
        self._served = LEAST

    def estimate(self, loads: Mapping[str, ServerLoad], records: Iterable[ServerRecord], rate: float) -> float:
        """Return the capacity in requests/s, above 0. ``rate`` is the demand of the whole farm in requests/s.

        If the rates of individual servers are unknown, each server is assumed to serve an equal part of the demand.
        """
        if self._configured:
            return self._configured
        servers = list(records)
        equal_part = rate / max(1, sum(record.state is ServerState.IN_SERVICE for record in servers))
        rates = [load.requests_per_s for load in loads.values() if load.requests_per_s is not None] or [equal_part]
        self._served = max(self._served, *rates)
        reported = [load.capacity for load in loads.values() if load.capacity]
        benchmarked = [record.capacity for record in servers if record.capacity]
        return median(reported or benchmarked or [self._served])
