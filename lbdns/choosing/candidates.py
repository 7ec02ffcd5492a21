"""The candidates of a pool: the members that may be selected.

The candidates depend on liveness, overrides, guard rails and spare capacity.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from lbdns.choosing.answer_tally import AnswerTally
from lbdns.choosing.guard_rails.guard_rails import Guard, GuardRails
from lbdns.choosing.guard_rails.spare_capacity import (
    ALARM_MARGIN,
    MARGIN,
    needed_despite_alarm,
    raised_ramps,
    spare,
    total_demand,
)
from lbdns.choosing.liveness_tracker import LivenessTracker
from lbdns.choosing.observed_pool import ObservedPool
from lbdns.choosing.reported_values import loads
from lbdns.model.liveness import Liveness, assess, state_of
from lbdns.model.overrides import ForcedState, PoolOverrides
from lbdns.policies.best import HORIZON
from lbdns.policies.member_columns import gathered
from lbdns.policies.steps import Steps, finish, parts

AT_ONCE: Final = 200  # members in a step that observes them for the guard rails


class Candidates:
    """Keeps a pool's candidates up to date. The object does not modify ``pool`` or ``tally``.

    ``stale_after`` is in report intervals. ``min_usable`` is a fraction of the members, from 0 to 1. ``ramp_up`` is the
    length of slow start in seconds (0: no slow start). ``black_hole`` enables the quarantine of members that serve
    nothing. ``sites`` contains the members of each site, if the pool has sites.
    """

    def __init__(
        self,
        pool: ObservedPool,
        tally: AnswerTally,
        stale_after: float,
        min_usable: float,
        ramp_up: float,
        black_hole: bool,
        sites: Sequence[Sequence[int]] = (),
    ) -> None:
        self._pool, self._tally = pool, tally
        self._stale_after, self._min_usable = stale_after, min_usable
        self.guard_rails = GuardRails(len(pool.names), min_usable, ramp_up, black_hole, sites)
        self._now = -math.inf
        self._tracker = LivenessTracker(stale_after, min_usable, pool.pool, sites)
        self._forced_by: PoolOverrides | None = None  # the overrides from which the next two attributes were made
        self._forced: list[ForcedState] = []
        self._forced_up: frozenset[int] = frozenset()
        self.unproven: frozenset[int] = frozenset()  # forced up although their reports, if any, say otherwise
        self.liveness: Liveness = assess(pool.readings, [""] * len(pool.names), 0.0, stale_after, min_usable)

    def take_over(self, old: Candidates, places: Sequence[int | None]) -> None:
        """Continue from the states in ``old``.

        ``places`` lists each member's index in ``old``, or None for a new member.
        """
        self.guard_rails.take_over(old.guard_rails, places)
        states = zip(self.liveness.states, places, strict=True)
        known = tuple(state if place is None else old.liveness.states[place] for state, place in states)
        self.liveness = replace(self.liveness, states=known, fail_open=old.liveness.fail_open)

    def update(self, fresh: Collection[int], now: float) -> bool:
        """Update the candidates as of ``now``. Return whether a state has changed and new plans are needed.

        The caller must pass the snapshot to ``pool`` first. ``fresh`` lists the indexes of members with a new report.
        """
        return finish(self.update_steps(fresh, now))

    def update_steps(self, fresh: Collection[int], now: float) -> Steps[bool]:
        """Do the same as ``update``, in steps."""
        readings, observed = self._pool.readings, tuple(fresh)
        for part in parts(len(observed), AT_ONCE):
            for i in observed[part]:
                if (reading := readings[i]) is not None:
                    self.guard_rails.observe(i, reading)
            yield
        due = now >= self.next_change
        forced = self._forced_states()
        yield
        liveness = yield from self._tracker.update_steps(readings, fresh, forced, now)
        unproven = self.unproven
        self.unproven = frozenset(
            i
            for i in self._forced_up
            if state_of(readings[i], now, self._stale_after, pool=self._pool.pool) != "usable"
        )
        yield
        can_spare = partial(self._can_spare, now=now)
        if "alarm" in liveness.states and self._pool.measured:
            yield from self._pool.estimate_steps()
        alarmed = self._needed_despite_alarm(liveness, forced, now)
        yield
        candidates = self.guard_rails.candidates(liveness, can_spare, self._forced_up, alarmed)
        if candidates != liveness.candidates:
            liveness = replace(liveness, candidates=candidates)
        yield
        if not liveness.fail_open:
            if self.liveness.fail_open:
                self.guard_rails.slow_start.restart(now)
            self.guard_rails.update_slow_start(candidates, now)
        yield
        changed = due or liveness.states != self.liveness.states or unproven != self.unproven
        self.liveness, self._now = liveness, now
        return changed

    def _forced_states(self) -> list[ForcedState]:
        """Return each member's forced state: the same object until the overrides change."""
        overrides = self._pool.overrides
        if self._forced_by is None or overrides != self._forced_by:
            self._forced = [overrides.forced_state(name) for name in self._pool.names]
            self._forced_up = frozenset(i for i, state in enumerate(self._forced) if state == "up")
            self._forced_by = overrides
        return self._forced

    @property
    def next_change(self) -> float:
        """Return the monotonic time (s) at which the candidates will change if no report arrives, or inf if never."""
        overdue_at = self._pool.columns.overdue_at
        next_overdue = min(gathered(overdue_at, self.liveness.candidates), default=math.inf)
        if next_overdue <= self._now:
            later = [at for i in self.liveness.candidates if (at := overdue_at[i]) > self._now]
            next_overdue = min(later, default=math.inf)
        return min(self.liveness.next_change, next_overdue, self.guard_rails.next_change(self._now))

    def guards(self, now: float) -> tuple[Guard, ...]:
        """Return each member's guard, which states why a usable member gets less than its full share of answers."""
        return finish(self.guard_steps(now))

    def guard_steps(self, now: float) -> Steps[tuple[Guard, ...]]:
        """Return the same guards as ``guards``, in steps."""
        if self.guard_rails.slow_start.ramps(now):
            yield from self._pool.estimate_steps()
        return (yield from self.guard_rails.guard_steps(now, self.ramps(now)))

    @property
    def quarantine_exempt(self) -> frozenset[int]:
        """Return the candidates that have confirmed symptoms but are not quarantined, because the pool needs them."""
        return frozenset(self.liveness.candidates).intersection(self.guard_rails.caught)

    def overdue(self, now: float) -> Collection[int]:
        """Return the candidates whose reports are overdue. Members that are forced up do not count."""
        overdue_at = self._pool.columns.overdue_at
        if now < min(overdue_at, default=math.inf):
            return ()
        return [i for i in self.liveness.candidates if now >= overdue_at[i] and i not in self._forced_up]

    def ramps(self, now: float) -> Mapping[int, float]:
        """Return the weight fraction of each member in slow start; the fractions are higher if the other members lack
        capacity.
        """
        ramps = self.guard_rails.slow_start.ramps(now)
        if not ramps:
            return ramps
        capacity, candidates = self._pool.observed_capacities(), self.liveness.candidates
        margin = ALARM_MARGIN if "alarm" in self.liveness.states else MARGIN
        return raised_ramps(ramps, candidates, capacity, self._demand(candidates, capacity, now), margin)

    def _needed_despite_alarm(self, liveness: Liveness, forced: Sequence[ForcedState], now: float) -> list[int]:
        if "alarm" not in liveness.states:
            return []
        alarmed = [
            i
            for i, (state, reading) in enumerate(zip(liveness.states, self._pool.readings, strict=True))
            if state == "alarm" and not forced[i] and not (reading and reading.web_server_failed)
        ]
        if not alarmed or not self._pool.measured or liveness.fail_open:
            return []
        others, capacity = liveness.candidates, self._pool.observed_capacities()
        horizon = HORIZON * self._pool.interval
        demand = self._demand((*alarmed, *others), capacity, now)
        load = list(loads(self._pool.metrics, capacity))
        for i, tasks in self._pool.other_tasks().items():
            load[i] = max(0.0, load[i] - tasks)
        return needed_despite_alarm(alarmed, others, load, capacity, demand, horizon)

    def _can_spare(self, suspended: Sequence[int], others: Sequence[int], minimum: float, now: float) -> list[int]:
        # An operator's weight changes a member's share, not what the others can carry
        capacity = self._pool.observed_capacities()
        return spare(suspended, others, minimum, capacity, self._demand((*suspended, *others), capacity, now))

    def _demand(self, members: Sequence[int], capacity: Sequence[float], now: float) -> float:
        """Return the rate of requests to ``members``, including requests from an arriving crowd. If it is unknown,
        return 0."""
        if not self._pool.measured:
            return 0.0
        caught = self.guard_rails.caught
        failing = [i for i in caught if i in self.liveness.candidates]
        serving = [i for i in members if i not in caught]
        # A member that claims more than it can carry itself must not make the pool seem to need other members
        rates = self._pool.request_rates(capacity, margin=1.0)
        demand = total_demand(rates, self._tally.recent.values, capacity, serving, failing)
        # Each answer to a crowd brings at least one request
        return max(demand, self._tally.crowd_rate(now))
