"""Metric families of pools and their members. Those of members one by one only where there are not too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client.core import Metric

from lbdns.farm import Farm, Pool
from lbdns.liveness import STATES
from lbdns.overrides import KINDS
from lbdns_collector.status import Situation
from lbdns_collector.web.exposition import Row, families, family

#: Beside the states: a member that reports well and is set aside all the same. With it they add up to the pool.
QUARANTINED: Final = "quarantined"


def are_told(farm: Farm) -> bool:
    """Whether members are told one by one: a time series of each for each of a dozen metrics has its price, here and
    where they are kept."""
    return _members(farm) <= farm.config.web.max_member_series


def pool_families(now: Situation) -> Iterator[Metric]:
    """What is told whatever the number of members."""
    states: list[Row] = []
    measured: list[Row] = []
    for pool in now.farm.pools:
        counts = Counter(_states(now, pool))
        states += [((pool.name, state), counts[state]) for state in (*STATES, QUARANTINED)]
        capacities, is_measured = now.capacities_of(pool)
        if capacities:
            measured.append(((pool.name,), is_measured))
    text = "Members by state; quarantined are those that would be usable and are set aside"
    yield from families("lbdns_pool_members", "gauge", text, ("pool", "state"), states)
    text = "1 if the capacities of the members are requests/s, 0 while they are only relative to each other"
    yield from families("lbdns_pool_capacity_measured", "gauge", text, ("pool",), measured)
    yield from _override_families(now)
    omitted = 0 if are_told(now.farm) else _members(now.farm)
    text = "Members that have no series of their own because there are more than [web] max_member_series"
    yield family("lbdns_member_series_omitted", "gauge", text, omitted)


def _override_families(now: Situation) -> Iterator[Metric]:
    counts: list[Row] = []
    oldest: list[Row] = []
    for pool in now.farm.pools:
        names = {member.full_name for member in pool.members} if now.overrides.items else ()
        here = [o for o in now.overrides.items if o.pool in ("", pool.name) and o.member in names]
        for kind in KINDS:
            since = [override.since for override in here if override.kind == kind]
            counts.append(((pool.name, kind), len(since)))
            if since:
                oldest.append(((pool.name, kind), min(since)))
    labels = "pool", "kind"
    yield from families("lbdns_pool_overrides", "gauge", "What people have ordered for members", labels, counts)
    name, text = "lbdns_pool_oldest_override_timestamp_seconds", "When the oldest override in force was ordered"
    yield from families(name, "gauge", text, labels, oldest)


def member_families(now: Situation) -> Iterator[Metric]:
    """Score, state, age, guard and capacity of every member; a member that never reported has neither score nor age."""
    if not are_told(now.farm):
        return
    for name, text, rows in (
        ("lbdns_member_score", "Score of the newest report", _scores),
        ("lbdns_member_usable", "1 if the member reports and is not drained, refused or quarantined", _usable),
        ("lbdns_member_report_age_seconds", "Time since the newest report", _ages),
        ("lbdns_member_quarantined", "1 while the member gets nothing because it serves nothing", _quarantined),
        ("lbdns_member_ramp", "What part of its share the member gets: below 1 after it came back", _ramps),
        ("lbdns_member_capacity", _CAPACITY, _capacities),
    ):
        yield from families(name, "gauge", text, ("pool", "member"), _rows(now, rows))


#: The value for each member of a pool; None where there is none
_Values = Callable[[Situation, Pool], Iterable[float | None]]
_CAPACITY: Final = "What the member is held able to carry; requests/s where lbdns_pool_capacity_measured is 1"


def _rows(now: Situation, values: _Values) -> Iterator[Row]:
    for pool in now.farm.pools:
        # Shorter where a value is known of nobody
        for member, value in zip(pool.members, values(now, pool), strict=False):
            if value is not None:
                yield (pool.name, member.name), value


def _scores(now: Situation, pool: Pool) -> Iterable[float | None]:
    return (None if reading is None else reading.score for reading in now.readings(pool))


def _usable(now: Situation, pool: Pool) -> Iterable[float]:
    return (state == "usable" for state in _states(now, pool))


def _ages(now: Situation, pool: Pool) -> Iterable[float | None]:
    return (None if reading is None else max(0.0, now.now - reading.received) for reading in now.readings(pool))


def _quarantined(now: Situation, pool: Pool) -> Iterable[float]:
    return (guard.quarantined for guard in now.guards_of(pool)) if pool.name in now.guards else ()


def _ramps(now: Situation, pool: Pool) -> Iterable[float]:
    return (guard.ramp for guard in now.guards_of(pool)) if pool.name in now.guards else ()


def _capacities(now: Situation, pool: Pool) -> Iterable[float]:
    return now.capacities_of(pool)[0]


def _states(now: Situation, pool: Pool) -> list[str]:
    states = zip(now.liveness(pool).states, now.guards_of(pool), strict=True)
    return [QUARANTINED if guard.quarantined and state == "usable" else state for state, guard in states]


def _members(farm: Farm) -> int:
    return sum(len(pool.members) for pool in farm.pools)
