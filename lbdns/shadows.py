"""What is tried in the shadow: beside each policy that answers, the one that is only worked out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Final

from lbdns.config import CollectorConfig, PoolConfig
from lbdns.policies import POLICIES
from lbdns.policies.plan import MemberView, PoolView

#: Two pools that differ by nothing but the scores: the first member's is the highest, or the last one's
_PROBES: Final = tuple(
    PoolView(
        tuple(MemberView(usable=True, suspect=False, score=score, load=1.0, capacity=1.0) for score in scores),
        interval=1.0,
        requests_per_s=1.0,
        answers_per_s=1.0,
        answers_allowed=2,
    )
    for scores in ((30, 20, 10), (10, 20, 30))
)


@dataclass(frozen=True, slots=True)
class ShadowConfig:
    live: str  # the policy that answers
    policy: str  # the one that is tried in its place
    score: str  # by which it goes; empty: by the one that counts

    @property
    def name(self) -> str:
        """What metrics call it."""
        return f"{self.policy}/{self.score}" if self.score else self.policy


def shadows_of(pool: PoolConfig, collector: CollectorConfig) -> tuple[ShadowConfig, ...]:
    """The shadows of a pool, one at most for each of its policies: none where it would do the same."""
    found = []
    for live in dict.fromkeys(pool.names.values()):
        policy = pool.shadow or live
        score = collector.shadow_score if _goes_by_score(policy) else ""
        if policy != live or score:
            found.append(ShadowConfig(live, policy, score))
    return tuple(found)


@cache
def _goes_by_score(policy: str) -> bool:
    """Whether the score makes any difference to a policy: tried out, so that a new one need not say so."""
    one, other = (POLICIES[policy](view, None, Random(1)).order for view in _PROBES)
    return one != other
