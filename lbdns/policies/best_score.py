"""``best_score``, from the 1999 thesis: always selects the member with the highest score. Tied members take turns.

Under heavy traffic, the policy causes herding: all clients are sent to the same member until the next report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lbdns.policies.plan import HIGHEST_SCORE, Plan, PolicySpec, PoolView, Selections, rotation

if TYPE_CHECKING:
    from random import Random


def best_score(view: PoolView, previous: Selections | None, rng: Random) -> Plan:
    """Return a plan for policy ``best_score``; members with the same score take turns."""
    candidates = view.candidates
    best = max((view.members[i].score for i in candidates), default=0)
    return rotation([i for i in candidates if view.members[i].score == best], previous)


BEST_SCORE: Final = PolicySpec("best_score", best_score, why=HIGHEST_SCORE, uses_score=True)
