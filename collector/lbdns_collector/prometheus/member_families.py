"""Metric families about pools and their members.

If a farm has more members than ``[web] max_member_series``, no series for individual members are exported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client.core import Metric

from lbdns.model.farm import Farm, Pool
from lbdns.model.liveness import STATES
from lbdns.model.overrides import KINDS
from lbdns_collector.prometheus.exposition import FamilyRow, families, family
from lbdns_collector.status.status_document import StatusInputs

#: A state in addition to those of liveness: the member is usable, but quarantined. The counts add up to the pool's size
QUARANTINED_STATE: Final = "quarantined"


def has_member_series(farm: Farm) -> bool:
    """Return whether to export series for individual members. About a dozen series are exported for each member."""
    return _members(farm) <= farm.config.web.max_member_series


def pool_families(inputs: StatusInputs) -> Iterator[Metric]:
    """Yield the families that are exported regardless of the number of members."""
    states: list[FamilyRow] = []
    measured: list[FamilyRow] = []
    for pool in inputs.farm.pools:
        counts = Counter(_states(inputs, pool))
        states += [((pool.name, state), counts[state]) for state in (*STATES, QUARANTINED_STATE)]
        capacities, is_measured = inputs.capacities_of(pool)
        if capacities:
            measured.append(((pool.name,), is_measured))
    text = "Number of members by state; a quarantined member sends reports, but serves no requests"
    yield from families("lbdns_pool_members", "gauge", text, ("pool", "state"), states)
    text = "1 if the capacities of the members are in requests/s, 0 if they are only relative to each other"
    yield from families("lbdns_pool_capacity_measured", "gauge", text, ("pool",), measured)
    yield from _override_families(inputs)
    omitted = 0 if has_member_series(inputs.farm) else _members(inputs.farm)
    text = (
        "Number of members for which no series are exported: 0, or all if there are more than [web] max_member_series"
    )
    yield family("lbdns_member_series_omitted", "gauge", text, omitted)


def _override_families(inputs: StatusInputs) -> Iterator[Metric]:
    counts: list[FamilyRow] = []
    oldest: list[FamilyRow] = []
    for pool in inputs.farm.pools:
        names = {member.full_name for member in pool.members} if inputs.overrides.items else ()
        here = [o for o in inputs.overrides.items if o.pool in ("", pool.name) and o.member in names]
        for kind in KINDS:
            since = [override.since for override in here if override.kind == kind]
            counts.append(((pool.name, kind), len(since)))
            if since:
                oldest.append(((pool.name, kind), min(since)))
    labels = "pool", "kind"
    yield from families("lbdns_pool_overrides", "gauge", "Overrides in force for members of the pool", labels, counts)
    name, text = "lbdns_pool_oldest_override_timestamp_seconds", "Unix time at which the oldest override in force began"
    yield from families(name, "gauge", text, labels, oldest)


def member_families(inputs: StatusInputs) -> Iterator[Metric]:
    """Yield the families for each member's score, state, report age, guard and capacity.

    A member that has never reported, or that has no agent, has neither a score nor a report age.
    """
    if not has_member_series(inputs.farm):
        return
    for name, text, rows in (
        ("lbdns_member_score", "Score of the newest report", _scores),
        ("lbdns_member_usable", "1 if the member sends reports and is not drained, in alarm or quarantined", _usable),
        ("lbdns_member_report_age_seconds", "Time since the newest report", _ages),
        ("lbdns_member_check_failed", "1 while the member fails the pool's check", _failed_checks),
        ("lbdns_member_quarantined", "1 while the member is quarantined because it serves no requests", _quarantined),
        (
            "lbdns_member_ramp",
            "Fraction of its normal share that the member receives; below 1 during slow start",
            _ramps,
        ),
        ("lbdns_member_capacity", _CAPACITY, _capacities),
    ):
        yield from families(name, "gauge", text, ("pool", "member"), _rows(inputs, rows))


#: Returns one value per member of a pool; None for a member without a value
_Values = Callable[[StatusInputs, Pool], Iterable[float | None]]
_CAPACITY: Final = "Estimated capacity: requests/s if lbdns_pool_capacity_measured is 1, else relative to other members"


def _rows(inputs: StatusInputs, values: _Values) -> Iterator[FamilyRow]:
    for pool in inputs.farm.pools:
        # There are fewer values than members only if no value is known for the pool
        for member, value in zip(pool.members, values(inputs, pool), strict=False):
            if value is not None:
                yield (pool.name, member.name), value


def _scores(inputs: StatusInputs, pool: Pool) -> Iterable[float | None]:
    return (None if reading is None else reading.score for reading in inputs.readings(pool))


def _usable(inputs: StatusInputs, pool: Pool) -> Iterable[float]:
    return (state == "usable" for state in _states(inputs, pool))


def _ages(inputs: StatusInputs, pool: Pool) -> Iterable[float | None]:
    readings = inputs.readings(pool)
    return (None if r is None or r.score is None else max(0.0, inputs.now - r.received) for r in readings)


def _failed_checks(inputs: StatusInputs, pool: Pool) -> Iterable[float]:
    if pool.config.check.target is None:
        return ()
    return (bool(reading and reading.failure(pool.name)) for reading in inputs.readings(pool))


def _quarantined(inputs: StatusInputs, pool: Pool) -> Iterable[float]:
    return (guard.quarantined for guard in inputs.guards_of(pool)) if pool.name in inputs.guards else ()


def _ramps(inputs: StatusInputs, pool: Pool) -> Iterable[float]:
    return (guard.ramp for guard in inputs.guards_of(pool)) if pool.name in inputs.guards else ()


def _capacities(inputs: StatusInputs, pool: Pool) -> Iterable[float]:
    return inputs.capacities_of(pool)[0]


def _states(inputs: StatusInputs, pool: Pool) -> list[str]:
    states = zip(inputs.liveness(pool).states, inputs.guards_of(pool), strict=True)
    return [QUARANTINED_STATE if guard.quarantined and state == "usable" else state for state, guard in states]


def _members(farm: Farm) -> int:
    return sum(len(pool.members) for pool in farm.pools)
