"""Liveness of a pool over time: assesses all members only if the state of one of them may have changed. Sans-I/O."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final

from lbdns.model.liveness import Liveness, Shown, State, assess, silent_at, state_of
from lbdns.model.overrides import ForcedState
from lbdns.model.snapshot import Reading
from lbdns.policies.steps import Steps, finish, parts

AT_ONCE: Final = 300  # members whose states are determined in a step


class LivenessTracker:
    """Keeps the liveness of one pool up to date. The results are those of ``assess``.

    ``stale_after`` is in report intervals. ``min_usable`` is a fraction of the members, from 0 to 1. ``pool`` is the
    pool's name, and ``sites`` contains the members of each site, if the pool has sites.
    """

    def __init__(self, stale_after: float, min_usable: float, pool: str, sites: Sequence[Sequence[int]] = ()) -> None:
        self._stale_after, self._min_usable, self._pool = stale_after, min_usable, pool
        self._sites = sites
        self._newest: Liveness | None = None  # as of the last call of ``update``, or None if it cannot be reused
        self._forced: Sequence[ForcedState] = ()
        self._silent_at: list[float] = []  # by member: when it becomes silent, or inf if its reports do not matter

    def update(
        self, readings: Sequence[Reading | None], fresh: Collection[int], forced: Sequence[ForcedState], now: float
    ) -> Liveness:
        """Return the liveness at ``now`` (monotonic seconds). ``fresh`` lists the members whose readings are new.

        The caller must pass the same object ``forced`` as long as no forced state changes.
        """
        return finish(self.update_steps(readings, fresh, forced, now))

    def update_steps(
        self, readings: Sequence[Reading | None], fresh: Collection[int], forced: Sequence[ForcedState], now: float
    ) -> Steps[Liveness]:
        """Return the same as ``update``, in steps."""
        newest = self._newest
        if newest is not None and forced is self._forced and now < newest.next_change:
            judged = yield from self._judge_steps(fresh, readings, forced, now)
            states = newest.states
            if all(state == states[i] for i, (state, _) in zip(fresh, judged, strict=True)):
                for i, (_, end) in zip(fresh, judged, strict=True):
                    self._silent_at[i] = end
                self._newest = Liveness(states, newest.candidates, "", min(self._silent_at, default=math.inf))
                return self._newest
        judged = yield from self._judge_steps(range(len(readings)), readings, forced, now)
        shown = Shown(tuple([state for state, _ in judged]), min((end for _, end in judged), default=math.inf))
        found = assess(readings, forced, now, self._stale_after, self._min_usable, self._pool, self._sites, shown)
        yield
        self._forced = forced
        self._silent_at = [end for _, end in judged]
        self._newest = found if not found.fail_open and self._has_enough(found.states) else None
        return found

    def _has_enough(self, states: Sequence[State]) -> bool:
        """Return whether a site, or a pool without sites, has enough usable members. Otherwise, the candidates also
        depend on when members became silent, and on failed web servers."""
        for members in self._sites or (range(len(states)),):
            found = [states[i] for i in members]
            usable = found.count("usable")
            if usable and usable >= self._min_usable * (len(found) - found.count("drained")):
                return True
        return False

    def _judge_steps(
        self, members: Collection[int], readings: Sequence[Reading | None], forced: Sequence[ForcedState], now: float
    ) -> Steps[list[tuple[State, float]]]:
        """Return the results of ``_judge`` for ``members``, in steps."""
        judge, kept = self._judge, tuple(members)
        judged: list[tuple[State, float]] = []
        for part in parts(len(kept), AT_ONCE):
            judged += [judge(readings[i], forced[i], now) for i in kept[part]]
            yield
        return judged

    def _judge(self, reading: Reading | None, forced: ForcedState, now: float) -> tuple[State, float]:
        """Return the member's state, and when it becomes silent if no further report arrives (inf if it cannot)."""
        shown = state_of(reading, now, self._stale_after, pool=self._pool)
        # While a member is forced up, the load that it reports counts
        live = reading is not None and shown in ("usable", "alarm") and forced in ("", "up")
        end = silent_at(reading, self._stale_after) if live and reading else math.inf
        return state_of(reading, now, self._stale_after, forced) if forced else shown, end
