"""Measures the load of each site of a pool: its usable members, their capacity and their utilisation. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lbdns.choosing.candidates import Candidates
from lbdns.choosing.observed_pool import AVERAGE, ObservedPool
from lbdns.choosing.reported_values import load_of
from lbdns.policies.plan import PoolView
from lbdns.scores.headroom import MOST_RUNNABLE

BUSY = 0.7  # of its capacity: the load of a member with a lower rate is not a backlog, but slow requests


@dataclass(frozen=True, slots=True)
class SiteLoad:
    """The members of one site that may be selected, and their load. Rates are in requests/s, or in busy cores if
    no requests were observed."""

    members: tuple[int, ...]  # indexes in the pool; empty if the site cannot serve
    capacity: float = 0.0
    rate: float = 0.0  # including what is needed to work off backlogs
    is_stale: bool = False  # no member has a current report about its load, so ``rate`` is unknown
    is_unknown: bool = False  # no member has ever reported; ``members`` contains all of them
    measured: bool = False  # whether rates are in requests/s

    @property
    def hosts(self) -> int:
        """Return the number of members that may be selected."""
        return len(self.members)

    @property
    def utilization(self) -> float | None:
        """Return the part of the capacity in use, which is above 1 if there are backlogs, or None if it is unknown."""
        return None if self.is_stale or self.capacity <= 0 else self.rate / self.capacity


def site_load(pool: ObservedPool, candidates: Candidates, site: Sequence[int]) -> SiteLoad:
    """Return the load of the members whose indexes are in ``site``."""
    states, inside = candidates.liveness.states, frozenset(site)
    serving = tuple(i for i in candidates.liveness.candidates if i in inside)
    if not serving:
        if all(states[i] == "unknown" for i in site):
            return SiteLoad(tuple(site), float(len(site)), is_stale=True, is_unknown=True)
        # A site whose members are all in alarm is full, not gone
        serving = tuple(i for i in site if states[i] == "alarm" and not _is_out_of_service(pool, i))
    if not serving:
        return SiteLoad(())
    measured, cores = pool.measured, pool.cores
    capacity = pool.observed_capacities() if measured else tuple(cores)
    rates = pool.request_rates(capacity, margin=1.0) if measured else _busy_cores(pool, cores)
    known = [i for i in serving if rates[i] is not None and _is_current(states, i)]
    whole, seen, demand = sum(capacity[i] for i in serving), sum(capacity[i] for i in known), 0.0
    for i in known:
        rate = rates[i] or 0.0
        backlog = (load_of(pool.metrics[i]) or 0.0) - MOST_RUNNABLE * max(1.0, cores[i])
        demand += rate + (max(0.0, backlog) / AVERAGE if rate > BUSY * capacity[i] else 0.0)
    # Members that do not report their load are assumed to be as busy as the others
    return SiteLoad(serving, whole, demand * whole / seen if seen > 0 else 0.0, is_stale=seen <= 0, measured=measured)


def site_view(view: PoolView, pool: ObservedPool, site: SiteLoad, answers: float) -> PoolView:
    """Return a view in which only the members of ``site`` can be selected, and the rates are those of this site.

    ``answers`` is the part of the pool's answers that name members of the site, from 0 to 1.
    """
    inside = frozenset(site.members)
    rates = pool.request_rates(pool.observed_capacities())
    known = [rate for i in inside if (rate := rates[i]) is not None]
    in_progress = [pool.columns.in_progress[i] for i in inside]
    return replace(
        view,
        members=replace(view.columns, candidates=sorted(inside)),
        requests_per_s=math.fsum(known) if known else math.inf,
        in_progress=math.inf if None in in_progress else math.fsum(value or 0.0 for value in in_progress),
        answers_per_s=view.answers_per_s * answers,
        recent_answers_per_s=view.recent_answers_per_s * answers,
    )


def _is_current(states: Sequence[str], member: int) -> bool:
    return states[member] in ("usable", "alarm")


def _is_out_of_service(pool: ObservedPool, member: int) -> bool:
    """Return whether a member in alarm is forced down, or its agent reports a failed web server."""
    reading = pool.readings[member]
    return bool(pool.overrides.forced_state(pool.names[member]) or (reading and reading.web_server_failed))


def _busy_cores(pool: ObservedPool, cores: Sequence[float]) -> list[float | None]:
    idle = [metrics.get("cpu_idle") for metrics in pool.metrics]
    return [None if i is None else c * min(1.0, max(0.0, 1 - i / 100)) for i, c in zip(idle, cores, strict=True)]
