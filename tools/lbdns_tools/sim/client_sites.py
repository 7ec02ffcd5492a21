"""Simulates where clients are: draws the site near each client, and counts responses by this site."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import Final

from lbdns_tools.percentiles import percentile
from lbdns_tools.sim.simulation_results import FarmMoment, SiteFigures
from lbdns_tools.sim.simulation_scenario import DEADLINE, Scenario

SWING: Final = 0.1  # share: smaller turns of a share are chance


class ClientSites:
    """The sites near the clients of a scenario, and the factors of surges."""

    def __init__(self, scenario: Scenario, chance: Random) -> None:
        self._chance = chance
        self._weights = list(scenario.client_weights)
        self._usual = sum(self._weights)
        self._factors = [1.0] * len(self._weights)
        self._all = 1.0  # factor of a surge of all clients
        self._bounds = list(accumulate(self._weights))

    def draw(self) -> int:
        """Return the number of the site near the next client, or 0 if the farm has no sites."""
        bounds = self._bounds
        return min(bisect_right(bounds, self._chance.random() * bounds[-1]), len(bounds) - 1) if bounds else 0

    def multiply(self, site: int | None, factor: float) -> float:
        """Multiply the usual rate of the clients near ``site``, or of all clients, by ``factor``. Return the factor of
        the whole rate."""
        if site is None:
            self._all = factor
        else:
            self._factors[site] = factor
        present = [weight * factor for weight, factor in zip(self._weights, self._factors, strict=True)]
        self._bounds = list(accumulate(present))
        return self._all * sum(present) / self._usual if self._usual else self._all


class SiteTally:
    """The requests of the clients near one site that were sent after the warm-up."""

    def __init__(self) -> None:
        self.responses = array("d")  # seconds, including the network delay
        self.sent = self.kept = self.failed = 0  # requests; requests to servers of the same site; failures

    def figures(self, site: str, swings: int) -> SiteFigures:
        """Return the results. Requests without a response count as failed."""
        missing = self.sent - len(self.responses)
        ordered = sorted([*self.responses, *[DEADLINE] * missing])
        return SiteFigures(
            site=site,
            requests=self.sent,
            local=self.kept / self.sent if self.sent else 0.0,
            failed=self.failed + missing,
            mean_ms=1000 * sum(ordered) / len(ordered) if ordered else 0.0,
            p95_ms=1000 * percentile(ordered, 95),
            swings=swings,
        )


def swings(moments: Sequence[FarmMoment], begin: float, site: int) -> int:
    """Return how many times the share of a site's clients that stay in the site has turned by at least ``SWING`` since
    the time ``begin``: after a rise, it falls, or the reverse."""
    shares = [moment.kept[site] for moment in moments if moment.time > begin]
    turns, direction = 0, 0
    extreme = shares[0] if shares else 0.0
    for share in shares:
        if (share - extreme) * direction > 0:
            extreme = share
        elif abs(share - extreme) >= SWING:
            turns += direction != 0
            direction, extreme = (1 if share > extreme else -1), share
    return turns
