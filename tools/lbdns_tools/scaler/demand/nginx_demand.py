"""Demand from nginx's ``stub_status`` page: the requests that nginx has received."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.demand.counter_rates import CounterRates
from lbdns_tools.scaler.demand.demand_source import DemandError, DemandReading
from lbdns_tools.scaler.demand.nginx_status import DEFAULT_URL, StubStatusPage, url_key

FIRST: Final = 1.0  # seconds that the first call measures


@dataclass(frozen=True, slots=True)
class NginxDemandConfig:
    """The section ``[demand]`` of kind ``nginx``."""

    status_url: str = url_key(DEFAULT_URL)


class NginxDemand:
    """All requests that one nginx receives, including those for other upstreams. The loads of individual servers are
    unknown."""

    def __init__(self, page: StubStatusPage) -> None:
        self._page = page
        self._rates = CounterRates()

    async def read(self, now: float) -> DemandReading:
        """Return the demand since the previous call. The first call measures the rate over one second. Raises
        DemandError."""
        rate = await self._rate(now)
        if rate is None:
            await asyncio.sleep(FIRST)
            rate = await self._rate(now + FIRST)
        return DemandReading(rate or 0.0)

    async def _rate(self, now: float) -> float | None:
        try:
            status = await self._page.read()
        except LbdnsError as error:
            raise DemandError(str(error)) from None
        return self._rates.rate("requests", status.requests, now)
