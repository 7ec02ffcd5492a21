"""A scaler's loop on a fake farm, with a demand that a test sets, in steps that the test makes."""

from __future__ import annotations

from pathlib import Path

from lbdns_tools.scaler.demand.demand_source import DemandReading, ServerLoad
from lbdns_tools.scaler.policies.scaling_policy import FarmView, Recommendation
from lbdns_tools.scaler.running.rounds_csv import RoundsFile
from lbdns_tools.scaler.running.scaler_loop import ScalerLoop
from lbdns_tools.scaler.settings.scaler_sections import ScalerSection
from tests.tools.scaler.life_cycle.fake_farm import FakeFarm, FleetDriver


class FakeDemand:
    """Demand that a test sets."""

    def __init__(self) -> None:
        self.reading: DemandReading | Exception = DemandReading(0.0)

    async def read(self, now: float) -> DemandReading:
        if isinstance(self.reading, Exception):
            raise self.reading
        return self.reading


class PerServer:
    """A policy: a server for each ten requests/s. It keeps the views that it was given."""

    history = 60.0

    def __init__(self) -> None:
        self.views: list[FarmView] = []

    def recommend(self, view: FarmView) -> Recommendation:
        self.views.append(view)
        return Recommendation(round(view.demand.requests_per_s / 10), "Each ten requests/s need a server.")


class Scaled:
    """A loop on a fake farm, in steps that a test makes."""

    def __init__(
        self, folder: Path, settings: ScalerSection, dry_run: bool = False, farm: FakeFarm | None = None
    ) -> None:
        self.driver = FleetDriver(farm or FakeFarm(), folder)
        self.demand, self.policy = FakeDemand(), PerServer()
        self.file = RoundsFile(folder / "scaler.csv")
        clock = lambda: self.driver.farm.now  # noqa: E731
        self.loop = ScalerLoop(settings, self.policy, self.driver.fleet, self.demand, self.file, dry_run, clock)

    async def round(self, rate: float, servers: dict[str, ServerLoad] | None = None, seconds: int = 15) -> None:
        """Decide at a demand, then let time pass."""
        self.demand.reading = DemandReading(rate, servers or {})
        await self.loop.decide()
        await self.driver.look(seconds)
