"""What a policy sees and what it makes: the view of a pool, and a plan of hand-outs. Pure data.

A policy is a function ``(view, handed, chance) -> Plan``. The view is the pool as the newest reports show it,
``handed`` what was given out of the previous plan, ``chance`` the only source of randomness. The server hands out
the plan's members one after another, so that a query costs one counter whatever the policy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True, slots=True)
class MemberView:
    """One member as a policy sees it."""

    usable: bool  # may be handed out; with fail open everybody who is not drained
    suspect: bool  # usable, but its report is overdue
    score: int
    load: float  # requests at work or waiting now
    capacity: float  # requests/s, or any measure in proportion to it
    cores: float = 1.0  # may be a fraction
    charge: float = 0.0  # requests that hand-outs since its report bring, those of other DNS servers reckoned in
    left: float = 1.0  # what part of its capacity other work on its host leaves it, above 0
    refusing: bool = False  # it gives an alarm, but the others can't do without it
    ramp: float = 1.0  # what part of its share it gets, above 0: less than all for a while after it has come back


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool as a policy sees it. Rates are 10 s averages but for ``answers_now``."""

    members: tuple[MemberView, ...]
    interval: float  # s: the mean report interval, observed
    requests_per_s: float  # the members' requests, from whatever source
    answers_per_s: float  # hand-outs of this policy, all DNS servers together
    answers_allowed: int  # hand-outs from now on while queries still count as few; 0 if they are many
    fail_open: bool = False
    measured: bool = False  # whether capacities are requests/s, as seen, and not only in proportion
    multiple: float = 1.0  # answers of all processes and DNS servers for one that this plan gives
    at_work: float = math.inf  # requests at work in the whole pool; inf if a member doesn't tell
    answers_now: float = 0.0  # answers_per_s, but that of the last second when a crowd has just come

    @property
    def candidates(self) -> list[int]:
        """The indexes that may be handed out."""
        return [i for i, member in enumerate(self.members) if member.usable]

    @property
    def crowd_comes(self) -> bool:
        """Whether just now far more is asked for than on the average."""
        return self.answers_now > self.answers_per_s

    @property
    def requests_per_answer(self) -> float:
        """How many requests an answer brings."""
        return self.requests_per_s / self.answers_per_s if self.answers_per_s > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The order in which members (by index) are handed out until the next plan.

    Never empty: a pool has members, and somebody can always be handed out. At its end the order goes on from
    ``repeat_from``. ``weights`` are each member's share and ``credits`` what it
    was owed at the beginning, in hand-outs; both are empty for policies without shares. The first ``probes`` hand-outs
    are no policy's: they show whether what speaks against a member is still so.
    """

    order: Sequence[int]
    repeat_from: int = 0
    weights: tuple[float, ...] = ()
    credits: tuple[float, ...] = ()
    probes: int = 0


@dataclass(frozen=True, slots=True)
class Handed:
    """What was given out of ``plan``: how often each member, and the last one (of any plan), if any."""

    plan: Plan
    counts: tuple[int, ...]
    last: int | None


Policy = Callable[[PoolView, Handed | None, "Random"], Plan]


def rotation(indexes: Sequence[int], handed: Handed | None) -> Plan:
    """Strict rotation over ``indexes`` (ascending), going on behind the member handed out last."""
    last = handed.last if handed else None
    if last is None:
        return Plan(tuple(indexes))
    return Plan((*(i for i in indexes if i > last), *(i for i in indexes if i <= last)))


def highest_score(view: PoolView, handed: Handed | None) -> Plan:
    """argmax(score); members with the same score take turns."""
    candidates = view.candidates
    best = max((view.members[i].score for i in candidates), default=0)
    return rotation([i for i in candidates if view.members[i].score == best], handed)
