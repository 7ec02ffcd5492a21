"""The data types for selection: the view of a pool that a policy reads, and the plan that the policy returns.

A policy is a pure function ``(view, previous, rng) -> Plan``. ``view`` is the pool as the newest reports describe it.
``previous`` contains the selections from the policy's previous plan, or is None if there was no previous plan. ``rng``
is the only source of randomness. Answers name the plan's members one after another, so a query only advances a counter,
whatever the policy is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lbdns.policies.member_columns import MemberColumns, MemberView
from lbdns.policies.steps import Steps, in_one_step

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool as a policy sees it. All rates except ``recent_answers_per_s`` are averages over 10 s.

    ``members`` are converted to ``MemberColumns``, if they are none.
    """

    members: Sequence[MemberView]
    interval: float  # s: the mean observed time between reports
    requests_per_s: float  # to all members, including requests that follow no answer of ours
    answers_per_s: float  # by this policy, all DNS servers together
    answers_allowed: int  # answers from now on that still count as light traffic; 0 if traffic is not light
    fail_open: bool = False
    measured: bool = False  # whether capacities are observed requests/s; if not, only their ratios are meaningful
    multiplier: float = 1.0  # answers of all processes and DNS servers per answer from this plan
    in_progress: float = math.inf  # requests in progress in the whole pool; inf if a member does not report them
    max_speed_gain: float = math.inf  # times the share that an idle member with its proven capacity would get
    recent_answers_per_s: float = 0.0  # answers_per_s, or the last second's rate when a crowd has just arrived

    def __post_init__(self) -> None:
        if not isinstance(self.members, MemberColumns):
            object.__setattr__(self, "members", MemberColumns.of(self.members))

    @property
    def columns(self) -> MemberColumns:
        """Return the members by column."""
        assert isinstance(self.members, MemberColumns), "the constructor has converted them"
        return self.members

    @property
    def candidates(self) -> Sequence[int]:
        """Return the indexes of the members that may be selected, in ascending order."""
        return self.columns.candidates

    @property
    def on_time(self) -> Sequence[int]:
        """Return the candidates that are not overdue, or all candidates if at least half are overdue.

        If at least half of the candidates are overdue, the network is probably at fault.
        """
        candidates, overdue = self.candidates, self.columns.overdue
        if not overdue:
            return candidates
        found = [i for i in candidates if i not in overdue]
        return found if 2 * len(found) > len(candidates) else candidates

    @property
    def crowd_arriving(self) -> bool:
        """Return whether the answer rate in the last second was far above the average."""
        return self.recent_answers_per_s > self.answers_per_s

    @property
    def requests_per_answer(self) -> float:
        """Return the average number of requests that follow an answer, or 1 if there were no answers."""
        return self.requests_per_s / self.answers_per_s if self.answers_per_s > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The order in which members, given by index, are selected until the next plan.

    ``order`` is never empty. After the end of ``order``, selection continues at index ``repeat_from``. ``weights``
    contains the members' shares; ``credits`` contains each member's credit when the plan began (see ``smooth_plan``).
    For policies without shares, ``weights`` and ``credits`` are empty. The plan begins with ``probes`` selections that
    the policy does not make; each of them tests whether a quarantined member works again.

    After the probes come the selections up to ``repeat_from``. If ``light`` is true, they are for light traffic. If
    ``light`` is false, they are for the answers expected until the next plan, and the selections from ``repeat_from``
    on are used only if more queries arrive.

    ``ranking`` lists the candidates, best first. It is empty if answers name one member, or if ``order`` contains all
    candidates.
    """

    order: Sequence[int]
    repeat_from: int = 0
    weights: tuple[float, ...] = ()
    credits: tuple[float, ...] = ()
    probes: int = 0
    light: bool = False
    ranking: Sequence[int] = ()

    def taken(self, at: int, passes: int) -> int:
        """Return the number of selections made so far.

        ``at`` is the index in ``order`` of the next selection. ``passes`` is the number of times that the end of
        ``order`` has been reached.
        """
        return at + passes * (len(self.order) - self.repeat_from)

    def counts(self, at: int, passes: int) -> Counter[int]:
        """Return how many times each member has been selected so far. The parameters are those of ``taken``."""
        if not passes:
            return Counter(self.order[:at])
        counts = Counter(self.order) + Counter(self.order[self.repeat_from : at])
        for member, count in Counter(self.order[self.repeat_from :]).items():
            counts[member] += count * (passes - 1)
        return counts

    def part(self, taken: int) -> Part:
        """Return the part of the plan that contains the selection at index ``taken``. This selection must not be a
        probe."""
        if self.repeat_from <= self.probes:
            return "expected"
        if taken < self.repeat_from:
            return "light" if self.light else "expected"
        return "expected" if self.light else "overflow"


@dataclass(frozen=True, slots=True)
class Selections:
    """The number of times that ``plan`` has selected each member, and the member selected last, by this or an earlier
    plan.
    """

    plan: Plan
    counts: tuple[int, ...]
    last: int | None


PolicyFunction = Callable[[PoolView, Selections | None, "Random"], Plan]
PolicySteps = Callable[[PoolView, Selections | None, "Random"], Steps[Plan]]
Reason = str | Callable[[PoolView], str]
#: Maps a member's index to a value by which members can be sorted, best first
SortKey = Callable[[int], Any]

#: Part of a plan: for light traffic, for the expected answers, or for answers beyond the expected number
Part = Literal["light", "expected", "overflow"]


def in_turn(view: PoolView) -> SortKey:
    """Return a sort key under which all members are equal."""
    return lambda i: 0


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """The properties of a policy. The table ``lbdns.policies.POLICIES`` contains one spec per policy."""

    name: str  # in configurations, metrics and JSON
    function: PolicyFunction
    why: Reason  # why it selects a member, shown to users
    why_light: Reason = ""  # the reason in a plan's part for light traffic, if its plans have such a part
    why_overflow: Reason = ""  # the reason when more queries arrive than expected, if its plans provide for them
    weighs_load: bool = False  # its shares follow load or capacity: it still applies when every member gives an alarm
    uses_score: bool = False  # whether a member's score changes its plans
    rank: Callable[[PoolView], SortKey] = in_turn  # ranks the members that an answer names after the plan's members
    steps: PolicySteps | None = None  # makes the plan in steps, if that takes long in a large pool

    def plan_steps(self, view: PoolView, previous: Selections | None, rng: Random) -> Steps[Plan]:
        """Return the policy's plan, in steps."""
        return (self.steps or in_one_step(self.function))(view, previous, rng)

    def reason(self, view: Callable[[], PoolView], part: Part = "expected") -> str:
        """Return the reason why the policy selects a member in the given ``part`` of its plan.

        ``view`` returns a view of the pool. The method calls ``view`` only if the reason depends on the state of the
        pool.
        """
        why = {"light": self.why_light, "expected": self.why, "overflow": self.why_overflow}[part]
        return why if isinstance(why, str) else why(view())


def rotation(indexes: Sequence[int], previous: Selections | None) -> Plan:
    """Return a strict rotation over ``indexes`` (ascending), starting after the member that was selected last."""
    last = previous.last if previous else None
    if last is None:
        return Plan(tuple(indexes))
    return Plan((*(i for i in indexes if i > last), *(i for i in indexes if i <= last)))
