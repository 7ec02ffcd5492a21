"""Views of pools, for tests of policies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from random import Random
from typing import Any

from lbdns.model.overrides import ForcedState, PoolOverrides
from lbdns.policies.member_columns import MemberView
from lbdns.policies.plan import Plan, PolicyFunction, PoolView, Selections


def member(
    score: int = 50, load: float = 0.0, capacity: float = 1.0, usable: bool = True, overdue: bool = False, **more: Any
) -> MemberView:
    return MemberView(usable, overdue, score, load, capacity, **more)


def view(*members: MemberView, rate: float = 1000.0, allowed: int = 0, interval: float = 1.0) -> PoolView:
    """Return a view of a pool. Traffic is heavy unless ``allowed`` is greater than 0."""
    return PoolView(members, interval, rate, rate, allowed, recent_answers_per_s=rate)


def steered(
    drained: Collection[str] = (),
    up: Collection[str] = (),
    down: Collection[str] = (),
    factors: Mapping[str, float] | None = None,
) -> PoolOverrides:
    """Return the overrides of a pool, keyed by full member name."""
    ways: dict[ForcedState, Collection[str]] = {"up": up, "down": down, "drained": drained}
    return PoolOverrides({name: way for way, names in ways.items() for name in names}, factors or {})


def hand_out(plan: Plan, count: int) -> list[int]:
    """Return the first ``count`` selections from a plan, including its repetitions."""
    found = list(plan.order[:count])
    while len(found) < count:
        found.extend(plan.order[plan.repeat_from :])
    return found[:count]


def handed(plan: Plan, count: int, last: int | None = None) -> Selections:
    """Return the ``Selections`` after ``count`` selections from ``plan``."""
    order = hand_out(plan, count)
    members = max(len(plan.weights), max(plan.order) + 1)
    counts = Counter(order)
    return Selections(plan, tuple(counts[i] for i in range(members)), order[-1] if order else last)


def run(policy: PolicyFunction, pool: PoolView, each: int, times: int) -> list[int]:
    """Make ``times`` successive plans for the same view; return the first ``each`` selections from each plan."""
    order: list[int] = []
    before: Selections | None = None
    for _ in range(times):
        plan = policy(pool, before, Random(1))
        order += hand_out(plan, each)
        before = handed(plan, each, before.last if before else None)
    return order
