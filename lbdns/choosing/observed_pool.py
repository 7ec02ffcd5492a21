"""What the reports show about the members of one pool: their readings, capacities and loads. Sans-I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lbdns.choosing.capacity_estimate import capacities, enough_observed
from lbdns.choosing.observed_member import ObservedMember
from lbdns.model.overrides import NO_POOL_OVERRIDES, PoolOverrides
from lbdns.model.snapshot import Reading, Snapshot


class ObservedPool:
    """The observations of a pool's members, in the pool's order. ``names`` are full names."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.members = [ObservedMember() for _ in names]
        self.overrides: PoolOverrides = NO_POOL_OVERRIDES

    def take_over(self, old: ObservedPool, places: Sequence[int | None]) -> None:
        """Continue from the observations of ``old``; ``places`` are the members' indexes there, None if new."""
        self.members = [
            mine if place is None else old.members[place] for mine, place in zip(self.members, places, strict=True)
        ]

    def observe(self, snapshot: Snapshot) -> list[int]:
        """Record the readings in ``snapshot``; return the indexes of the members with a new one."""
        fresh = []
        for i, (name, member) in enumerate(zip(self.names, self.members, strict=True)):
            reading = snapshot.readings.get(name)
            if reading is not None and reading is not member.reading:
                member.observe(reading)
                fresh.append(i)
        return fresh

    @property
    def readings(self) -> list[Reading | None]:
        """Return the newest reading of each member."""
        return [member.reading for member in self.members]

    @property
    def metrics(self) -> list[Mapping[str, float]]:
        """Return the plausible metrics of each member's newest reading."""
        return [member.metrics for member in self.members]

    @property
    def measured(self) -> bool:
        """Return whether capacities are observed requests/s; else only their ratios mean anything."""
        return enough_observed([member.request_cost for member in self.members])

    def observed_capacities(self) -> tuple[float, ...]:
        """Return each member's capacity as reports show it, without the operators' weights."""
        cores = [member.metrics.get("cpu_count") for member in self.members]
        return capacities([member.request_cost for member in self.members], cores)

    def weighted_capacities(self) -> tuple[float, ...]:
        """Return each member's capacity multiplied by its weight, if an operator has set one."""
        found = self.observed_capacities()
        if not self.overrides.factors:
            return found
        return tuple(c * self.overrides.factors.get(name, 1.0) for name, c in zip(self.names, found, strict=True))

    def weighted_score(self, member: int, score: int) -> int:
        """Return ``score`` multiplied by the weight of ``member``, truncated."""
        return int(score * self.overrides.factors.get(self.names[member], 1.0))
