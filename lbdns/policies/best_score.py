"""``best_score``, from the 1999 thesis: always selects the member with the highest score. Tied members take turns.

Under heavy traffic, the policy causes herding: all clients are sent to the same member until the next report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lbdns.policies.plan import Plan, PolicySpec, PoolView, Selections, rotation
from lbdns.policies.ranking import by_score

if TYPE_CHECKING:
    from random import Random


def best_score(view: PoolView, previous: Selections | None, rng: Random) -> Plan:
    """Return a plan for policy ``best_score``; members with the same score take turns."""
    return rotation(highest(view), previous)


def highest(view: PoolView) -> list[int]:
    """Return the indexes of the candidates with the highest score."""
    candidates, scores = view.candidates, view.columns.scores
    best = max([scores[i] for i in candidates], default=0)
    return [i for i in candidates if scores[i] == best]


def _why(view: PoolView) -> str:
    tied = len(highest(view))
    return f"highest score; {tied} members share this score and take turns" if tied > 1 else "highest score"


BEST_SCORE: Final = PolicySpec("best_score", best_score, why=_why, uses_score=True, rank=by_score)
