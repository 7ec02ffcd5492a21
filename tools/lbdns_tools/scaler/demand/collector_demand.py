"""Demand from an lbdns collector: requests, CPU utilization and capacities that the members of a pool report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lbdns.config import value_readers as read
from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.demand.demand_source import DemandError, DemandReading, ServerLoad
from lbdns_tools.scaler.demand.status_reader import StatusReader, collector_url_key

_OUT: Final = ("silent", "unknown")  # states of members whose last report is too old


@dataclass(frozen=True, slots=True)
class CollectorDemandConfig:
    """The section ``[demand]`` of kind ``collector``."""

    pool: str = read.string("web")
    url: str = collector_url_key()
    token_file: Path | None = read.secret_path()


@dataclass(frozen=True, slots=True)
class _Count:
    """The number of requests that a web server had served at a given time (monotonic seconds)."""

    requests: float
    at: float


class CollectorDemand:
    """The demand of one pool, not counting the agents' requests for the status page.

    An overloaded farm serves fewer requests than arrive. Therefore, connections waiting to be accepted count as
    requests that arrived in the period. An agent may still report although its web server no longer responds, even to
    the agent. In this case, the member's last known rate is used.
    """

    def __init__(self, status: StatusReader) -> None:
        self._status = status
        self._counts: dict[str, _Count] = {}
        self._rates: dict[str, float] = {}  # the last known rate of each member, in requests/s
        self._read_at: float | None = None

    async def read(self, now: float) -> DemandReading:
        """Return the demand since the previous call. The first call uses the request rates that the members report."""
        try:
            members = await self._status.members()
        except LbdnsError as error:
            raise DemandError(str(error)) from None
        period = None if self._read_at is None else max(1.0, now - self._read_at)
        self._read_at = now
        reporting = {n: m for n, m in members.items() if m["age_s"] is not None and m["state"] not in _OUT}
        loads = {name: self._load(name, member, now, period) for name, member in reporting.items()}
        for name in self._counts.keys() - members.keys():
            del self._counts[name]
        for name in self._rates.keys() - members.keys():
            del self._rates[name]
        total = sum(load.requests_per_s or 0.0 for load in loads.values())
        return DemandReading(total, loads, includes_benchmarks=True)

    def _load(self, name: str, member: Mapping[str, Any], now: float, period: float | None) -> ServerLoad:
        metrics: Mapping[str, float] = member["metrics"]
        idle, busy = metrics.get("cpu_idle"), metrics.get("busy_workers")
        capacity = member["capacity"] if member["measured"] else None
        rate = self._rate(name, member, now)
        if rate is not None:
            self._rates[name] = rate
        elif name in self._rates:
            rate = self._rates[name]
        if rate is not None and period:
            rate += metrics.get("listen_queue", 0.0) / period
        return ServerLoad(
            requests_per_s=rate,
            cpu_percent=None if idle is None else 100.0 - idle,
            capacity=capacity,
            busy=None if busy is None else max(0.0, busy - 1.0),  # without the agent's own request
        )

    def _rate(self, name: str, member: Mapping[str, Any], now: float) -> float | None:
        """Return the web server's request rate, in requests/s, or None if it is unknown."""
        metrics: Mapping[str, float] = member["metrics"]
        rate, total = metrics.get("requests_per_s"), metrics.get("requests_total")
        if total is not None:
            # The count is as old as the report that contains it
            count, before = _Count(total, now - member["age_s"]), self._counts.get(name)
            self._counts[name] = count
            if before and count.requests >= before.requests:
                if count.at - before.at <= member["interval_s"] / 2:  # the same report again
                    self._counts[name] = before
                else:
                    rate = (count.requests - before.requests) / (count.at - before.at)
        return None if rate is None else max(0.0, rate - 1 / member["interval_s"])
