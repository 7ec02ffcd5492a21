"""The chooser of one pool: receives snapshots and answer counts, and returns a plan for each policy. Sans-I/O.

The server and the simulator both use the ``Chooser`` class. Callers pass the time as an argument. The chooser itself
handles no queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lbdns.choosing.answer_tally import AnswerTally
from lbdns.choosing.candidates import Candidates
from lbdns.choosing.guard_rails.guard_rails import Guard
from lbdns.choosing.observed_pool import ObservedPool
from lbdns.choosing.pool_view import LOWEST_SCORE, build_view, view_steps
from lbdns.choosing.site_load import SiteLoad, site_load, site_view
from lbdns.choosing.spillover import TierLoad, tier_load
from lbdns.config.pool_section import MAX_SPEED_GAIN, RAMP_UP
from lbdns.model.liveness import Liveness
from lbdns.model.overrides import PoolOverrides
from lbdns.model.snapshot import NO_METRICS, Snapshot
from lbdns.policies import POLICIES
from lbdns.policies.plan import Plan, PolicySpec, PoolView, Selections, rotation
from lbdns.policies.ranking import ranking
from lbdns.policies.steps import Steps, finish

if TYPE_CHECKING:
    from random import Random


NO_PLAN: Final = Plan((0,))  # of selections that another pool has made


class Chooser:
    """Keeps the state that the policies need for one pool, and makes the policies' plans.

    ``members`` lists full names. ``stale_after`` is in report intervals. ``min_usable`` is a fraction of the members,
    from 0 to 1. ``servers`` is the number of DNS servers that answer for the pool. ``ramp_up`` is the length of slow
    start in seconds (0: no slow start). ``black_hole`` enables the quarantine of members that serve nothing. ``pool``
    is the pool's name. ``weights`` contains the configured factors of members' capacities, by full name.
    ``ranks`` is true if answers name several members; plans then contain a ranking of the candidates. ``sites``
    contains the indexes of the members of each site, if the pool has sites. ``native`` is true if the native extension
    observes the members, if it can; the results are the same.

    The caller passes every snapshot to ``observe`` and calls ``plan`` for each policy when ``observe`` returns True.
    If no report has arrived by ``next_change``, the caller calls ``observe`` again.
    """

    def __init__(
        self,
        members: Sequence[str],
        stale_after: float,
        min_usable: float,
        rng: Random,
        servers: int = 1,
        *,
        ramp_up: float = RAMP_UP,
        black_hole: bool = True,
        max_cores: float = 0.0,
        pool: str = "",
        weights: Mapping[str, float] = NO_METRICS,
        max_speed_gain: float = MAX_SPEED_GAIN,
        ranks: bool = False,
        sites: Sequence[Sequence[int]] = (),
        native: bool = False,
    ) -> None:
        self.members, self.servers = tuple(members), servers
        self._rng, self.ranks = rng, ranks
        self.pool = ObservedPool(members, max_cores, pool, weights, max_speed_gain, native)
        self._tally = AnswerTally(len(members), servers)
        self._candidates = Candidates(self.pool, self._tally, stale_after, min_usable, ramp_up, black_hole, sites)
        self.guard_rails = self._candidates.guard_rails
        self._last_before_probes: dict[str, int | None] = {}  # by policy whose plan begins with probes

    def take_over(self, old: Chooser) -> None:
        """Continue from the states of the members that ``old`` also contains.

        Call this method before the first ``observe``.
        """
        places = {member: place for place, member in enumerate(old.members)}
        mapping = [places.get(member) for member in self.members]
        self.pool.take_over(old.pool, mapping)
        self._tally.take_over(old._tally, mapping)
        self._candidates.take_over(old._candidates, mapping)

    @property
    def liveness(self) -> Liveness:
        """Return the members' states and the candidates as of the last call of ``observe``."""
        return self._candidates.liveness

    @property
    def next_change(self) -> float:
        """Return the monotonic time (s) at which plans will become outdated if no report arrives, or inf if never."""
        return self._candidates.next_change

    def guards(self, now: float) -> tuple[Guard, ...]:
        """Return each member's guard, which states why a usable member gets less than its full share of answers."""
        return self._candidates.guards(now)

    def guard_steps(self, now: float) -> Steps[tuple[Guard, ...]]:
        """Return the same guards as ``guards``, in steps."""
        return self._candidates.guard_steps(now)

    def observe(self, snapshot: Snapshot, overrides: PoolOverrides, now: float) -> bool:
        """Record a snapshot and the operators' overrides. Return whether any change makes new plans necessary."""
        return finish(self.observe_steps(snapshot, overrides, now))

    def observe_steps(self, snapshot: Snapshot, overrides: PoolOverrides, now: float) -> Steps[bool]:
        """Do the same as ``observe``, in steps. In between, the caller may only read the chooser's state."""
        overridden = overrides != self.pool.overrides
        self.pool.overrides = overrides
        fresh = yield from self.pool.observe_steps(snapshot)
        self._tally.start_round(fresh)
        yield
        changed = yield from self._candidates.update_steps(fresh, now)
        return overridden or bool(fresh) or changed

    def observe_some(self, snapshot: Snapshot, most: int) -> bool:
        """Record up to ``most`` new readings in ``snapshot``, and return whether it contains more.

        The next call of ``observe`` takes these readings into account.
        """
        return self.pool.observe_some(snapshot, most)

    def count_elsewhere(self, policy: str, count: int, now: float) -> None:
        """Add ``count`` answers, which this server's other processes have sent under ``policy`` since the last call."""
        self._tally.answers(policy).add(now, count)

    def hear(self, servers: frozenset[int]) -> None:
        """Record which other DNS servers are heard now."""
        self._tally.others.hear(servers)

    def count_others(self, server: int, policy: str, counts: Mapping[str, int], seconds: float, now: float) -> None:
        """Add answers that another DNS server has sent under ``policy`` in the last ``seconds`` seconds.

        ``counts`` is keyed by the full names of members; other names do not count.
        """
        named = [counts.get(member, 0) for member in self.members]
        if any(named):
            self._tally.add_others(server, policy, named, seconds, self.pool.reported, now)

    def unheard_factor(self, now: float) -> float:
        """Return the number of DNS servers, divided by the number of those whose answers are counted."""
        return self._tally.unheard_factor(now)

    def count_selections(self, counts: Sequence[int], now: float) -> None:
        """Add ``counts``: how many times all processes together have selected each member since the last call.

        Only processes that make no plans call this method; any other process passes its selections to ``plan``.
        """
        self._tally.recent.add(counts, now)
        self.guard_rails.count_selections(counts, now, self.servers)

    def plan(self, policy: str, previous: Selections | None, now: float) -> Plan:
        """Return a new plan made by ``policy``. ``previous`` contains the selections from the policy's previous
        plan."""
        return finish(self.plan_steps(policy, previous, now))

    def plan_steps(self, policy: str, previous: Selections | None, now: float) -> Steps[Plan]:
        """Do the same as ``plan``, in steps. In between, the caller may only read the chooser's state."""
        liveness = self.liveness
        self._tally.add_own(policy, previous, now)
        yield
        if previous:
            self.guard_rails.count_selections(previous.counts, now, self.servers)
            if policy in self._last_before_probes and previous.last not in liveness.candidates:
                # A rotation continues as if there had been no probe
                previous = replace(previous, last=self._last_before_probes[policy])
        self._last_before_probes.pop(policy, None)
        plan, applies = yield from self._plan(policy, previous, now, ranks=self.ranks)
        if applies and (probes := self.guard_rails.probes(now)):
            self._last_before_probes[policy] = previous.last if previous else None
            order, repeat_from = (*probes, *plan.order), plan.repeat_from + len(probes)
            plan = replace(plan, order=order, repeat_from=repeat_from, probes=len(probes))
        return plan

    def plan_for_other(self, policy: str, previous: Selections | None, now: float, *, ranks: bool) -> Steps[Plan]:
        """Return a plan by which another pool, whose backup this pool is, selects this pool's members, in steps.

        ``previous`` contains the selections from the other pool's previous plan of this pool's members.
        """
        plan, _ = yield from self._plan(policy, previous, now, ranks=ranks)
        return plan

    def site_view(self, view: PoolView, site: SiteLoad, answers: float) -> PoolView:
        """Return a policy's view of one site, given its ``view`` of the pool.

        ``answers`` is the part of the pool's answers that name members of the site, from 0 to 1.
        """
        return site_view(view, self.pool, site, answers)

    def plan_for_site(self, policy: str, view: PoolView, previous: Selections | None, site: SiteLoad) -> Steps[Plan]:
        """Return a plan by which ``policy`` selects only members of ``site``, in steps; ``view`` is its view of this
        site.

        ``previous`` contains the selections from the previous plan for this site.
        """
        spec = POLICIES[policy]
        if self.liveness.fail_open and not self._applies_to_alarmed(spec, view):
            return rotation(site.members, previous)
        plan = yield from spec.plan_steps(view, previous, self._rng)
        return replace(plan, ranking=ranking(view, spec.rank(view), previous)) if self.ranks else plan

    def site_load(self, site: Sequence[int]) -> SiteLoad:
        """Return what the members whose indexes are in ``site`` carry."""
        return site_load(self.pool, self._candidates, site)

    def count_spilled(self, policy: str, counts: Sequence[int], now: float) -> None:
        """Add ``counts``: how often plans that this chooser did not end have selected each member since the last call.
        These are plans of another pool whose backup this pool is, and plans of sites."""
        if any(counts):
            self._tally.add_own(policy, Selections(NO_PLAN, tuple(counts), None), now)
            self.guard_rails.count_selections(counts, now, self.servers)

    def tier_load(self) -> TierLoad:
        """Return what the pool's usable members carry."""
        return tier_load(self.pool, self._candidates)

    def _plan(self, policy: str, previous: Selections | None, now: float, *, ranks: bool) -> Steps[tuple[Plan, bool]]:
        """Return two values: a plan, and whether the policy made it. If it did not, the candidates take turns."""
        spec, view = POLICIES[policy], (yield from self.view_steps(policy, now))
        if self.liveness.fail_open and not self._applies_to_alarmed(spec, view):
            return rotation(self.liveness.candidates, previous), False
        plan = yield from spec.plan_steps(view, previous, self._rng)
        if ranks:
            plan = replace(plan, ranking=ranking(view, spec.rank(view), previous))
        return plan, True

    def _applies_to_alarmed(self, spec: PolicySpec, view: PoolView) -> bool:
        """Return whether two conditions hold: all candidates are in alarm, and the policy can compare their reported
        loads."""
        states = self.liveness.states
        all_alarmed = all(states[i] == "alarm" for i in self.liveness.candidates)
        return spec.weighs_load and view.measured and view.answers_allowed <= 0 and all_alarmed

    def shadow_plan(
        self, live: str, policy: str, previous: Selections, rng: Random, now: float, shadow_scores: bool = False
    ) -> Steps[Plan]:
        """Return the plan that ``policy`` would make now, in steps.

        The policy ``live``, which the shadow would replace, has just made its own plan.

        The chooser's state does not change. Do not call this method while the pool fails open. ``previous`` contains
        the shadow's selections from its own previous plan. If ``shadow_scores`` is true, members are compared by the
        ``shadow_score`` of their readings.
        """
        view = yield from self.view_steps(live, now)
        if shadow_scores:
            shadows = [reading.shadow_score if reading else None for reading in self.pool.readings]
            scores = [
                score if shadow is None or score == LOWEST_SCORE else self.pool.weighted_score(i, shadow)
                for i, (score, shadow) in enumerate(zip(view.columns.scores, shadows, strict=True))
            ]
            view = replace(view, members=replace(view.columns, scores=scores))
            yield
        return (yield from POLICIES[policy].plan_steps(view, previous, rng))

    def view(self, policy: str, now: float) -> PoolView:
        """Return the pool as ``policy`` sees it."""
        return build_view(self.pool, self._tally, self._candidates, policy, now)

    def view_steps(self, policy: str, now: float) -> Steps[PoolView]:
        """Return the same view as ``view``, in steps."""
        return view_steps(self.pool, self._tally, self._candidates, policy, now)
