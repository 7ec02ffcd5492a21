"""``weighted``: smooth weighted round robin by estimated capacity; selections are evenly spaced and deterministic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lbdns.native_extension import AVAILABLE, provides
from lbdns.policies.plan import Plan, PolicySpec, PoolView, Selections
from lbdns.policies.ranking import by_capacity
from lbdns.policies.steps import STEP, Steps, finish, parts

if AVAILABLE:
    import lbdns_native

if TYPE_CHECKING:
    from random import Random

NATIVE: Final = provides("carried_credits")
FEW: Final = 250  # members in a step that lists all their selections
MIN_LENGTH: Final = 64  # selections: enough for a share of 2 % to appear
MAX_LENGTH: Final = 1024  # selections: a share of 0.1 % still appears; longer plans cost more than they even out


def weighted(view: PoolView, previous: Selections | None, rng: Random) -> Plan:
    """Return a plan for policy ``weighted``."""
    return finish(weighted_steps(view, previous, rng))


def weighted_steps(view: PoolView, previous: Selections | None, rng: Random) -> Steps[Plan]:
    """Return a plan for policy ``weighted``, in steps."""
    members = view.on_time
    capacities = view.columns.weighed(members, view.columns.capacities)
    yield
    total = sum(capacities)
    shares = [0.0] * len(view.members)
    for i, capacity in zip(members, capacities, strict=True):
        shares[i] = capacity / total
    yield
    return (yield from smooth_plan_steps(view, shares, previous))


WEIGHTED: Final = PolicySpec(
    "weighted", weighted, why="in proportion to capacity", weighs_load=True, rank=by_capacity, steps=weighted_steps
)


def smooth_plan(view: PoolView, weights: Sequence[float], previous: Selections | None) -> Plan:
    """Return a plan that gives each member its share and spaces its selections evenly.

    The shares in ``weights`` add up to 1. A member's credit is the fraction of a selection, at most 1, that the
    previous plan still owes it. If the previous plan selected the member too often, the credit is negative (down to
    -1). The k-th selection of a member with share w and credit c is due after (k - 1/2 - c) / w selections of all
    members. The plan lists the selections in the order in which they are due.
    """
    return finish(smooth_plan_steps(view, weights, previous))


def smooth_plan_steps(view: PoolView, weights: Sequence[float], previous: Selections | None) -> Steps[Plan]:
    """Return the same plan as ``smooth_plan``, in steps."""
    credits = yield from carried_credits_steps(previous, len(weights))
    order = yield from smooth_order_steps(weights, credits, plan_length(view))
    return Plan(order, 0, tuple(weights), credits)


def smooth_order(weights: Sequence[float], credits: Sequence[float], length: int) -> tuple[int, ...]:
    """Return the first ``length`` selections of members with the given shares and credits (see ``smooth_plan``)."""
    return finish(smooth_order_steps(weights, credits, length))


def smooth_order_steps(weights: Sequence[float], credits: Sequence[float], length: int) -> Steps[tuple[int, ...]]:
    """Return the same selections as ``smooth_order``, in steps."""
    if not AVAILABLE:
        return (yield from _python_order_steps(weights, credits, length))
    found = tuple(lbdns_native.smooth_order(weights, credits, length))
    yield
    return found


def python_smooth_order(weights: Sequence[float], credits: Sequence[float], length: int) -> tuple[int, ...]:
    """Return the same selections as ``smooth_order``, without the native extension."""
    return finish(_python_order_steps(weights, credits, length))


def _python_order_steps(weights: Sequence[float], credits: Sequence[float], length: int) -> Steps[tuple[int, ...]]:
    first: list[tuple[float, int]] = []
    latest = math.inf
    for part in parts(len(weights)):
        shares = enumerate(zip(weights[part], credits[part], strict=True), part.start)
        times = [((0.5 - credit) * (1 / weight), i) for i, (weight, credit) in shares if weight > 0]
        first += times if latest == math.inf else [time for time in times if time[0] < latest]
        yield
        if len(first) > length:
            # In a large pool, most members are not due within the plan, and their other selections are due even later
            first = sorted(first)[:length]
            latest = first[-1][0] if first else -math.inf
            yield
    due: list[tuple[float, int]] = []
    for part in parts(len(first), FEW):
        for _, i in first[part]:
            weight, credit = weights[i], credits[i]
            step, last = 1 / weight, int(length * weight + credit) + 2
            due.extend([((k - 0.5 - credit) * step, i) for k in range(1, last + 1)])
        yield
    due.sort()
    yield
    return tuple([i for _, i in due[:length]])


def plan_length(view: PoolView) -> int:
    """Return the length of a plan in selections: enough for two report intervals, within fixed bounds."""
    return min(MAX_LENGTH, max(MIN_LENGTH, int(2 * view.answers_per_s * view.interval)))


def carried_credits(previous: Selections | None, members: int) -> tuple[float, ...]:
    """Return each member's credit after ``previous``, from -1 to 1.

    A positive credit means that the member is still owed this fraction of a selection. A negative credit means that it
    was selected too often.
    """
    return finish(carried_credits_steps(previous, members))


def carried_credits_steps(previous: Selections | None, members: int) -> Steps[tuple[float, ...]]:
    """Return the same credits as ``carried_credits``, in steps."""
    if previous is None or not len(previous.plan.weights) == len(previous.plan.credits) == members:
        return (0.0,) * members
    if not NATIVE:
        return (yield from _python_credits_steps(previous))
    plan, counts = previous.plan, previous.counts
    found = lbdns_native.carried_credits(plan.credits, plan.weights, counts, sum(counts))
    yield
    return found


def python_carried_credits(previous: Selections) -> tuple[float, ...]:
    """Return the same credits as ``carried_credits``, without the native extension."""
    return finish(_python_credits_steps(previous))


def _python_credits_steps(previous: Selections) -> Steps[tuple[float, ...]]:
    plan, counts, total = previous.plan, previous.counts, sum(previous.counts)
    found: list[float] = []
    for part in parts(len(counts), 2 * STEP):
        columns = zip(plan.credits[part], plan.weights[part], counts[part], strict=True)
        credits = [credit + total * weight - count for credit, weight, count in columns]
        found += [1.0 if credit > 1.0 else credit if credit > -1.0 else -1.0 for credit in credits]
        yield
    return tuple(found)
