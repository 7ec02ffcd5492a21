"""What is recorded once a second: references to what is known just now, taken in the event loop. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lbdns.farm import Farm, Pool
from lbdns.liveness import State
from lbdns.snapshot import Reading, Snapshot


@dataclass(frozen=True, slots=True)
class PoolSample:
    """One pool. Everything by member, in the order of ``members`` (names relative to the zone)."""

    name: str
    zone: str
    policies: Mapping[str, str]  # owner name -> policy
    members: tuple[str, ...]
    readings: tuple[Reading | None, ...]
    states: tuple[State, ...]
    answers: tuple[int, ...]  # so far


@dataclass(frozen=True, slots=True)
class Sample:
    """Everything at ``time`` (Unix seconds), which is ``now`` on the monotonic clock of the readings.

    ``types`` and ``rcodes`` are queries and responses so far, by name. ``stale_after`` is in report intervals.
    """

    time: float
    now: float
    stale_after: float
    pools: tuple[PoolSample, ...]
    types: Mapping[str, int] = field(default_factory=dict)
    rcodes: Mapping[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many members it tells of."""
        return sum(len(pool.members) for pool in self.pools)


def take_sample(
    snapshot: Snapshot,
    farm: Farm,
    states: Mapping[str, Sequence[State]],
    answers: Mapping[str, Sequence[int]],
    types: Mapping[str, int],
    rcodes: Mapping[str, int],
    now_unix: float,
    now_monotonic: float,
) -> Sample:
    """The sample of a farm at this moment. ``states`` and ``answers`` are by pool, in its members' order; where the
    number is not that of the members (who answers may know another configuration still), they are taken as unknown."""
    pools = tuple(
        _pool_sample(pool, snapshot, states.get(pool.name, ()), answers.get(pool.name, ())) for pool in farm.pools
    )
    stale_after = farm.config.collector.stale_after
    return Sample(now_unix, now_monotonic, stale_after, pools, dict(types), dict(rcodes))


def _pool_sample(pool: Pool, snapshot: Snapshot, states: Sequence[State], answers: Sequence[int]) -> PoolSample:
    count = len(pool.members)
    unknown: State = "unknown"
    return PoolSample(
        name=pool.name,
        zone=pool.config.zone,
        policies=pool.config.names,
        members=tuple(member.name for member in pool.members),
        readings=tuple([snapshot.readings.get(member.full_name) for member in pool.members]),
        states=tuple(states) if len(states) == count else (unknown,) * count,
        answers=tuple(answers) if len(answers) == count else (),
    )
