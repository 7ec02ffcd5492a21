"""History samples: what the history records once a second. A sample only refers to live data. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lbdns.model.farm import Farm, Pool
from lbdns.model.liveness import State
from lbdns.model.snapshot import Reading, Snapshot


@dataclass(frozen=True, slots=True)
class PoolHistorySample:
    """One pool. All sequences are in the order of ``members``, which are names relative to the zone."""

    name: str
    zone: str
    policies: Mapping[str, str]  # owner name -> policy
    members: tuple[str, ...]
    readings: tuple[Reading | None, ...]
    states: tuple[State, ...]
    answers: tuple[int, ...]  # so far


@dataclass(frozen=True, slots=True)
class HistorySample:
    """The state of all pools at ``time`` (Unix seconds), which is ``now`` on the monotonic clock of the readings.

    ``types`` and ``rcodes``: queries and responses so far, by name. ``stale_after``: in report intervals.
    """

    time: float
    now: float
    stale_after: float
    pools: tuple[PoolHistorySample, ...]
    types: Mapping[str, int] = field(default_factory=dict)
    rcodes: Mapping[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of members in all pools."""
        return sum(len(pool.members) for pool in self.pools)


def take_history_sample(
    snapshot: Snapshot,
    farm: Farm,
    states: Mapping[str, Sequence[State]],
    answers: Mapping[str, Sequence[int]],
    types: Mapping[str, int],
    rcodes: Mapping[str, int],
    now_unix: float,
    now_monotonic: float,
) -> HistorySample:
    """Return a sample of ``farm``. ``states`` and ``answers`` are keyed by pool name, in the order of the pool's
    members.

    If their length differs from the pool's, because an answering process still uses another configuration, they count
    as unknown.
    """
    pools = tuple(
        _pool_sample(pool, snapshot, states.get(pool.name, ()), answers.get(pool.name, ())) for pool in farm.pools
    )
    stale_after = farm.config.collector.stale_after
    return HistorySample(now_unix, now_monotonic, stale_after, pools, dict(types), dict(rcodes))


def _pool_sample(pool: Pool, snapshot: Snapshot, states: Sequence[State], answers: Sequence[int]) -> PoolHistorySample:
    count = len(pool.members)
    unknown: State = "unknown"
    return PoolHistorySample(
        name=pool.name,
        zone=pool.config.zone,
        policies=pool.config.names,
        members=tuple(member.name for member in pool.members),
        readings=tuple([snapshot.readings.get(member.full_name) for member in pool.members]),
        states=tuple(states) if len(states) == count else (unknown,) * count,
        answers=tuple(answers) if len(answers) == count else (),
    )
