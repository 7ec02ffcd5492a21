"""The shadows of a farm: what is tried beside the policies that answer, kept in step with them plan by plan.

Queries know nothing of it: when a live plan is over, its shadow is given out by as many at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from lbdns.answering.handout import Handout
from lbdns.farm import Farm
from lbdns.policies.chooser import Chooser
from lbdns.policies.plan import Handed, Plan
from lbdns.policies.shadow import Shadow
from lbdns.server.figures import Figures
from lbdns.shadows import ShadowConfig, shadows_of

#: Pool, policy
Key = tuple[str, str]


class Shadows:
    """Follows the hand-outs of one answering process."""

    def __init__(self) -> None:
        self._chance = Random()  # of its own: what shadows draw must not change what the live ones draw
        self._configs: dict[Key, ShadowConfig] = {}
        self._members: dict[str, tuple[str, ...]] = {}  # by pool, full names
        self._shadows: dict[Key, Shadow] = {}

    def use(self, farm: Farm, before: Mapping[Key, Handout]) -> None:
        """Go on with another configuration; ``before`` are the hand-outs of the one until now, which are over."""
        configs, members, shadows = self._configs, self._members, self._shadows
        self._configs, self._members, self._shadows = {}, {}, {}
        for pool in farm.pools:
            self._members[pool.name] = tuple(member.full_name for member in pool.members)
            place = {name: index for index, name in enumerate(self._members[pool.name])}
            for config in shadows_of(pool.config, farm.config.collector):
                key = pool.name, config.live
                self._configs[key] = config
                shadow = self._shadows[key] = Shadow(len(place))
                if configs.get(key) == config and key in before:
                    shadows[key].give_out(before[key].handed().counts)
                    shadow.take_over(shadows[key], [place.get(name) for name in members[pool.name]])

    def follow(self, pool: str, policy: str, live: Handed, plan: Plan, chooser: Chooser, now: float) -> None:
        """A plan of ``policy`` is over, of which ``live`` was given out, and ``plan`` is the next."""
        config = self._configs.get((pool, policy))
        if config is None:
            return
        shadow = self._shadows[pool, policy]
        handed = shadow.give_out(live.counts)
        if not chooser.liveness.fail_open:  # else there is nothing to choose, whatever the policy
            plan = chooser.shadow(policy, config.policy, handed, self._chance, now, shadow_scores=bool(config.score))
        shadow.set_plan(plan)

    def figures(self, handouts: Mapping[Key, Handout]) -> Figures:
        """What all have counted, up to where ``handouts``, the live ones, are now. What is diverted is known up to the
        beginning of the present plans: within one, it may still even out."""
        answers: dict[tuple[str, str, str, str], int] = {}
        diverted: dict[tuple[str, str, str], int] = {}
        for (pool, policy), shadow in self._shadows.items():
            if (pool, policy) not in handouts:
                continue
            name = self._configs[pool, policy].name
            totals = shadow.totals_after(sum(handouts[pool, policy].counts().values()))
            for member, count in zip(self._members[pool], totals, strict=True):
                answers[pool, policy, name, member] = count
            diverted[pool, policy, name] = shadow.diverted
        return Figures(shadow_answers=answers, diverted=diverted)
