"""The interface of demand sources, which measure how many requests arrive at the farm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lbdns_shared.errors import LbdnsError


class DemandError(LbdnsError):
    """The demand cannot be measured now."""


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """The load of one server. Unknown values are None."""

    requests_per_s: float | None = None
    cpu_percent: float | None = None
    capacity: float | None = None  # requests/s that the server can serve, as estimated from its requests and CPU time
    busy: float | None = None  # requests in progress


@dataclass(frozen=True, slots=True)
class DemandReading:
    """The demand since the previous reading."""

    requests_per_s: float
    servers: Mapping[str, ServerLoad] = field(default_factory=dict)  # by name; empty if only the total is known
    includes_benchmarks: bool = False  # whether the rates include requests that did not come through the front end


class DemandSource(Protocol):
    """Measures the demand. The caller calls ``read`` once per period."""

    async def read(self, now: float) -> DemandReading:
        """Return the demand since the previous call. ``now`` is a monotonic time in seconds. Raises DemandError."""
        ...
