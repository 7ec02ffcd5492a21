"""``weighted``: smooth weighted round robin by estimated capacity; selections are evenly spaced and deterministic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lbdns.native_extension import AVAILABLE, provides
from lbdns.policies.plan import Plan, PolicySpec, PoolView, Selections
from lbdns.policies.ranking import by_capacity

if AVAILABLE:
    import lbdns_native

if TYPE_CHECKING:
    from random import Random

NATIVE: Final = provides("carried_credits")
MIN_LENGTH: Final = 64  # selections: enough for a share of 2 % to appear
MAX_LENGTH: Final = 1024  # selections: a share of 0.1 % still appears; longer plans cost more than they even out


def weighted(view: PoolView, previous: Selections | None, rng: Random) -> Plan:
    """Return a plan for policy ``weighted``."""
    members = view.on_time
    capacities = view.columns.weighed(members, view.columns.capacities)
    total = sum(capacities)
    shares = [0.0] * len(view.members)
    for i, capacity in zip(members, capacities, strict=True):
        shares[i] = capacity / total
    return smooth_plan(view, shares, previous)


WEIGHTED: Final = PolicySpec("weighted", weighted, why="in proportion to capacity", weighs_load=True, rank=by_capacity)


def smooth_plan(view: PoolView, weights: Sequence[float], previous: Selections | None) -> Plan:
    """Return a plan that gives each member its share and spaces its selections evenly.

    The shares in ``weights`` add up to 1. A member's credit is the fraction of a selection, at most 1, that the
    previous plan still owes it. If the previous plan selected the member too often, the credit is negative (down to
    -1). The k-th selection of a member with share w and credit c is due after (k - 1/2 - c) / w selections of all
    members. The plan lists the selections in the order in which they are due.
    """
    credits = carried_credits(previous, len(weights))
    return Plan(smooth_order(weights, credits, plan_length(view)), 0, tuple(weights), credits)


def smooth_order(weights: Sequence[float], credits: Sequence[float], length: int) -> tuple[int, ...]:
    """Return the first ``length`` selections of members with the given shares and credits (see ``smooth_plan``)."""
    if not AVAILABLE:
        return python_smooth_order(weights, credits, length)
    return tuple(lbdns_native.smooth_order(weights, credits, length))


def python_smooth_order(weights: Sequence[float], credits: Sequence[float], length: int) -> tuple[int, ...]:
    """Return the same selections as ``smooth_order``, without the native extension."""
    shares = enumerate(zip(weights, credits, strict=True))
    first = [((0.5 - credit) * (1 / weight), i) for i, (weight, credit) in shares if weight > 0]
    if len(first) > length:
        # In a large pool, most members are not due within the plan, and their other selections are due even later
        first = sorted(first)[:length]
    due: list[tuple[float, int]] = []
    for _, i in first:
        weight, credit = weights[i], credits[i]
        step, last = 1 / weight, int(length * weight + credit) + 2
        due.extend([((k - 0.5 - credit) * step, i) for k in range(1, last + 1)])
    due.sort()
    return tuple([i for _, i in due[:length]])


def plan_length(view: PoolView) -> int:
    """Return the length of a plan in selections: enough for two report intervals, within fixed bounds."""
    return min(MAX_LENGTH, max(MIN_LENGTH, int(2 * view.answers_per_s * view.interval)))


def carried_credits(previous: Selections | None, members: int) -> tuple[float, ...]:
    """Return each member's credit after ``previous``, from -1 to 1.

    A positive credit means that the member is still owed this fraction of a selection. A negative credit means that it
    was selected too often.
    """
    if previous is None or len(previous.plan.weights) != members:
        return (0.0,) * members
    if not NATIVE:
        return python_carried_credits(previous)
    plan, counts = previous.plan, previous.counts
    return lbdns_native.carried_credits(plan.credits, plan.weights, counts, sum(counts))


def python_carried_credits(previous: Selections) -> tuple[float, ...]:
    """Return the same credits as ``carried_credits``, without the native extension."""
    total = sum(previous.counts)
    plan = previous.plan
    credits = [
        credit + total * weight - count
        for credit, weight, count in zip(plan.credits, plan.weights, previous.counts, strict=True)
    ]
    return tuple([1.0 if credit > 1.0 else credit if credit > -1.0 else -1.0 for credit in credits])
