"""Shadow mode: runs another policy or score alongside a live policy, and counts the selections it would make.

A shadow answers no queries. When a live plan ends, its shadow immediately makes the same number of selections.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from lbdns.answering.member_selection import PlanCursor
from lbdns.choosing.chooser import Chooser
from lbdns.config import CollectorConfig, PoolConfig
from lbdns.counting.answer_counters import AnswerCounters
from lbdns.model.farm import Farm
from lbdns.policies import POLICIES
from lbdns.policies.plan import Plan, Selections
from lbdns.policies.steps import Steps

#: Pool, live policy
ShadowKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ShadowConfig:
    """The policy and the score that shadow one live policy of a pool."""

    live: str  # the policy that answers
    policy: str  # the policy that is tried in its place
    score: str  # the score by which the shadow compares members; empty for the live score

    @property
    def name(self) -> str:
        """Return the shadow's name in metrics, such as ``best/thesis``."""
        return f"{self.policy}/{self.score}" if self.score else self.policy


def shadows_of(pool: PoolConfig, collector: CollectorConfig) -> tuple[ShadowConfig, ...]:
    """Return a pool's shadows: at most one per live policy, and none that would behave like the live policy itself.

    A pool with sites has no shadows.
    """
    if pool.sites:
        return ()
    found = []
    for live in dict.fromkeys(pool.names.values()):
        policy = pool.shadow or live
        score = collector.shadow_score if POLICIES[policy].uses_score else ""
        if policy != live or score:
            found.append(ShadowConfig(live, policy, score))
    return tuple(found)


class ShadowCursor:
    """Tracks a shadow's selections, and counts the live selections for which it would have selected another member.

    Once per plan, the number of live selections of each member is compared with the number of shadow selections; the
    order within a plan does not matter. At the end of each live plan, the caller must call ``end_plan`` and then
    ``set_plan``.
    """

    def __init__(self, members: int) -> None:
        self.totals = [0] * members  # selections from earlier plans, by member
        self.diverted = 0  # live selections that earlier plans would have diverted
        self._plan = Plan(tuple(range(members)))
        self._last: int | None = None

    def end_plan(self, live: Sequence[int]) -> Selections:
        """End the shadow's plan after as many selections as the live plan made, and return the shadow's selections.

        ``live`` contains the number of times that the live plan has selected each member.
        """
        selections = self._selections(sum(live))
        self.totals = [total + count for total, count in zip(self.totals, selections.counts, strict=True)]
        # Both sums are equal, so every surplus at one member is a deficit at another: the sum of the gaps is even
        self.diverted += sum(abs(one - other) for one, other in zip(live, selections.counts, strict=True)) // 2
        self._last = selections.last
        return selections

    def set_plan(self, plan: Plan) -> None:
        self._plan = plan

    def totals_after(self, count: int) -> list[int]:
        """Return the values that ``totals`` will have once the live plan has made ``count`` selections."""
        return [total + more for total, more in zip(self.totals, self._selections(count).counts, strict=True)]

    def take_over(self, old: ShadowCursor, mapping: Sequence[int | None]) -> None:
        """Continue from the state of ``old``. Call ``old.end_plan`` first.

        ``mapping`` contains the new index of each member of ``old``, or None for a member that was removed.
        """
        for now, total in zip(mapping, old.totals, strict=True):
            if now is not None:
                self.totals[now] += total
        self.diverted += old.diverted
        self._last = mapping[old._last] if old._last is not None else None
        rest = [now for i in old._plan.order[old._plan.repeat_from :] if (now := mapping[i]) is not None]
        if rest:
            self._plan = Plan(tuple(rest))

    def _selections(self, count: int) -> Selections:
        """Return the first ``count`` selections from the current plan."""
        order, repeated = self._plan.order, self._plan.order[self._plan.repeat_from :]
        passes, rest = divmod(max(0, count - len(order)), len(repeated))
        counts = Counter(order[:count])
        counts.update(repeated[:rest])
        if passes:
            counts.update({member: passes * times for member, times in Counter(repeated).items()})
        if count <= len(order):
            last = order[count - 1] if count else self._last
        else:
            last = repeated[rest - 1]
        return Selections(self._plan, tuple(counts[i] for i in range(len(self.totals))), last)


class ShadowPlans:
    """The shadows of all pools in one answering process."""

    def __init__(self) -> None:
        self._rng = Random()  # separate, so that the draws of shadows do not change those of live plans
        self._configs: dict[ShadowKey, ShadowConfig] = {}
        self._members: dict[str, tuple[str, ...]] = {}  # pool -> full names
        self._cursors: dict[ShadowKey, ShadowCursor] = {}

    def use(self, farm: Farm, before: Mapping[ShadowKey, PlanCursor]) -> None:
        """Switch to another configuration; ``before`` contains the old live cursors, whose plans have ended."""
        configs, members, cursors = self._configs, self._members, self._cursors
        self._configs, self._members, self._cursors = {}, {}, {}
        for pool in farm.pools:
            self._members[pool.name] = tuple(member.full_name for member in pool.members)
            places = {name: index for index, name in enumerate(self._members[pool.name])}
            for config in shadows_of(pool.config, farm.config.collector):
                key = pool.name, config.live
                self._configs[key] = config
                cursor = self._cursors[key] = ShadowCursor(len(places))
                if configs.get(key) == config and key in before:
                    own = before[key].selections().counts[: len(members[pool.name])]  # without those of a backup
                    cursors[key].end_plan(own)
                    cursor.take_over(cursors[key], [places.get(name) for name in members[pool.name]])

    def follow(self, pool: str, policy: str, live: Selections, plan: Plan, chooser: Chooser, now: float) -> Steps[None]:
        """End the shadow's plan, and begin its next one, in steps. Call this method whenever a live plan of ``policy``
        ends.

        ``live`` contains the live plan's selections; ``plan`` is the next live plan.
        """
        config = self._configs.get((pool, policy))
        if config is None:
            return
        cursor = self._cursors[pool, policy]
        selections = cursor.end_plan(live.counts)
        if not chooser.liveness.fail_open:  # otherwise, members usually take turns, whatever the policy
            shadow_scores = bool(config.score)
            yield
            plan = yield from chooser.shadow_plan(
                policy, config.policy, selections, self._rng, now, shadow_scores=shadow_scores
            )
        cursor.set_plan(plan)

    def counters(self, live: Mapping[ShadowKey, PlanCursor]) -> AnswerCounters:
        """Return counters of the selections that the shadows would have made so far, given the current positions of the
        ``live`` cursors.

        Diversions are counted only for plans that have ended, because differences in an unfinished plan may still
        disappear.
        """
        answers: dict[tuple[str, str, str, str], int] = {}
        diverted: dict[tuple[str, str, str], int] = {}
        for (pool, policy), cursor in self._cursors.items():
            if (pool, policy) not in live:
                continue
            name = self._configs[pool, policy].name
            counts, size = live[pool, policy].selections().counts, len(self._members[pool])
            totals = cursor.totals_after(sum(counts[:size]))
            for member, count in zip(self._members[pool], totals, strict=True):
                answers[pool, policy, name, member] = count
            diverted[pool, policy, name] = cursor.diverted
        return AnswerCounters(shadow_answers=answers, diverted=diverted)
