"""Views of pools for the tests of policies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from random import Random
from typing import Any

from lbdns.liveness import Forced
from lbdns.overrides import Steering
from lbdns.policies.plan import Handed, MemberView, Plan, Policy, PoolView


def member(
    score: int = 50,
    load: float = 0.0,
    capacity: float = 1.0,
    usable: bool = True,
    suspect: bool = False,
    **more: Any,
) -> MemberView:
    return MemberView(usable, suspect, score, load, capacity, **more)


def view(*members: MemberView, rate: float = 1000.0, allowed: int = 0, interval: float = 1.0) -> PoolView:
    """A busy pool unless ``allowed`` says that queries are few."""
    return PoolView(members, interval, rate, rate, allowed)


def steered(
    drained: Collection[str] = (),
    up: Collection[str] = (),
    down: Collection[str] = (),
    factors: Mapping[str, float] | None = None,
) -> Steering:
    """What people have ordered, by full name."""
    ways: dict[Forced, Collection[str]] = {"up": up, "down": down, "drained": drained}
    return Steering({name: way for way, names in ways.items() for name in names}, factors or {})


def hand_out(plan: Plan, count: int) -> list[int]:
    """The first ``count`` hand-outs of a plan, going on where it repeats."""
    found = list(plan.order[:count])
    while len(found) < count:
        found.extend(plan.order[plan.repeat_from :])
    return found[:count]


def handed(plan: Plan, count: int, last: int | None = None) -> Handed:
    """What a server says after ``count`` hand-outs of ``plan``."""
    order = hand_out(plan, count)
    members = max(len(plan.weights), max(plan.order) + 1)
    counts = Counter(order)
    return Handed(plan, tuple(counts[i] for i in range(members)), order[-1] if order else last)


def run(policy: Policy, pool: PoolView, each: int, times: int) -> list[int]:
    """Hand-outs of ``times`` plans one after another, ``each`` of every plan: reports that change nothing."""
    order: list[int] = []
    before: Handed | None = None
    for _ in range(times):
        plan = policy(pool, before, Random(1))
        order += hand_out(plan, each)
        before = handed(plan, each, before.last if before else None)
    return order
