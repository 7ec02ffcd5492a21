"""Views of made-up farms, and a loop that lets a policy decide round after round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lbdns_tools.scaler.life_cycle.scaling_limits import ScalingLimits
from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.policies.scaling_policy import (
    Demand,
    FarmView,
    Recommendation,
    ScalingPolicy,
    ScalingRound,
    ServerView,
)

MONDAY = 1_704_067_200.0  # 2024-01-01T00:00Z
CAPACITY = 2 / 0.07  # requests/s, as in the 2012 study


def servers(count: int, state: ServerState = ServerState.IN_SERVICE, billed: float = 1.0) -> tuple[ServerView, ...]:
    return tuple(ServerView(f"{state.value}-{number}", state, 0.0, billed) for number in range(1, count + 1))


def rounds(
    rates: Iterable[float], in_service: int, end: float, period: float = 60.0, cpu: float | None = None
) -> list[ScalingRound]:
    """Return rounds with the given rates, the last of which ended at ``end``."""
    values = list(rates)
    first = end - (len(values) - 1) * period
    return [
        ScalingRound(Demand(first + at * period, rate, cpu), in_service, in_service, in_service)
        for at, rate in enumerate(values)
    ]


def view(
    rate: float,
    count: int,
    past: Sequence[ScalingRound] = (),
    now: float = MONDAY,
    *,
    cpu: float | None = None,
    minimum: int = 1,
    maximum: int = 20,
    capacity: float = CAPACITY,
    more: tuple[ServerView, ...] = (),
) -> FarmView:
    return FarmView(now, Demand(now, rate, cpu), (*servers(count), *more), capacity, minimum, maximum, past)


@dataclass
class DecidingFarm:
    """A farm whose servers join at once, and whose policy decides once per period."""

    policy: ScalingPolicy
    count: int
    minimum: int = 1
    maximum: int = 20
    capacity: float = CAPACITY
    period: float = 60.0
    now: float = MONDAY
    limits: ScalingLimits = field(default_factory=ScalingLimits)
    rounds: list[ScalingRound] = field(default_factory=list)

    def decide(self, rate: float, cpu: float | None = None) -> Recommendation:
        """Return the decision of the next round, which the farm then follows."""
        self.now += self.period
        seen = view(
            rate, self.count, self.rounds, self.now, cpu=cpu, minimum=self.minimum, maximum=self.maximum,
            capacity=self.capacity,
        )  # fmt: skip
        wanted = self.policy.recommend(seen)
        decided = self.limits.apply(wanted, seen)
        self.rounds.append(ScalingRound(seen.demand, self.count, wanted.servers, decided.servers))
        self.count = decided.servers
        return decided

    def follow(self, rates: Iterable[float], cpu: float | None = None) -> list[int]:
        return [self.decide(rate, cpu).servers for rate in rates]
