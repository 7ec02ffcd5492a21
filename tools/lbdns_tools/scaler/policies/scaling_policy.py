"""The interface of scaling policies: a view of the farm and its recent demand goes in, a recommendation comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lbdns_tools.scaler.life_cycle.server_state import ON_THE_WAY, ServerState


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand measured over one period."""

    time: float  # end of the period, in Unix seconds
    requests_per_s: float  # requests that arrive at the whole farm
    cpu_percent: float | None = None  # mean CPU utilization of the servers in service; new servers do not count


@dataclass(frozen=True, slots=True)
class ScalingRound:
    """One past round: its demand, the servers in service at that time, and the outcome.

    ``recommended`` is the number that the policy recommended. ``decided`` is that number after the farm's limits have
    been applied.
    """

    demand: Demand
    in_service: int
    recommended: int
    decided: int


@dataclass(frozen=True, slots=True)
class ServerView:
    """What a policy knows about one server."""

    name: str
    state: ServerState
    since: float  # Unix seconds at which it entered this state
    billed_since: float  # Unix seconds at which the provider began to charge; 0 if it charges nothing now


@dataclass(frozen=True, slots=True)
class FarmView:
    """All data that a policy may use. ``rounds`` contains the past rounds (not the current one), oldest first."""

    now: float  # Unix seconds
    demand: Demand  # of the current round
    servers: tuple[ServerView, ...]  # without deleted ones
    capacity: float  # requests/s that one server can serve, measured or configured; above 0
    minimum: int
    maximum: int
    rounds: Sequence[ScalingRound] = ()

    @property
    def in_service(self) -> int:
        """The number of servers in service."""
        return self.count(ServerState.IN_SERVICE)

    @property
    def on_the_way(self) -> int:
        """The number of servers that are on their way into service."""
        return self.count(*ON_THE_WAY)

    def count(self, *states: ServerState) -> int:
        """Return the number of servers in any of ``states``."""
        return sum(server.state in states for server in self.servers)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The number of servers that should be in service, and the reason as one sentence.

    If there are too many servers, the caller first removes those that are not yet in service, then those in ``remove``,
    then the newest of the others. The caller keeps the number between the farm's minimum and maximum.
    """

    servers: int
    reason: str
    remove: tuple[str, ...] = ()


class ScalingPolicy(Protocol):
    """A scaling policy. Its attributes are its settings; it keeps no other state between calls.

    All history that a policy needs is in ``FarmView.rounds``, so a restarted scaler continues where it stopped.
    """

    @property
    def history(self) -> float:
        """How many seconds of past rounds the policy needs."""
        ...

    def recommend(self, view: FarmView) -> Recommendation:
        """Return the recommendation for the current round."""
        ...
