"""Blends the plans of a pool and of its backup into one plan. Pure functions.

In a blended plan, the pool's own members come first; the backup's members follow, in the order of their pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, cycle
from typing import Final

from lbdns.policies.plan import Plan

LEAST_ROUND: Final = 100  # selections that a blended plan repeats at least, so that a share is accurate to 1 %


def blended_plan(own: Plan | None, backup: Plan, members: int, share: float, credit: float = 0.0) -> Plan:
    """Return a plan that takes the part ``share`` (above 0, at most 1) of its selections from ``backup``.

    ``members`` is the number of the pool's own members. ``own`` is None if there are none. ``credit`` is the fraction
    of a selection, from -1 to 1, that earlier plans still owe the backup. All probes in ``own`` are kept.
    """
    theirs = _shifted(backup, members)
    if own is None or share >= 1:
        probes = tuple(own.order[: own.probes]) if own else ()
        order, begin = (*probes, *theirs.order), theirs.repeat_from + len(probes)
        weights = (*(0.0,) * members, *plan_shares(backup)) if backup.weights else ()
        return Plan(order, begin, weights, probes=len(probes) + theirs.probes, ranking=plan_ranking(theirs))
    first = own.order[own.probes : own.repeat_from]
    again = own.order[max(own.repeat_from, own.probes) :]
    again = tuple(again) * -(-LEAST_ROUND // len(again))
    source, due = chain(theirs.order, cycle(theirs.order[theirs.repeat_from :])), credit
    parts: list[list[int]] = []
    for selections in (first, again):
        found: list[int] = []
        for selection in selections:
            # Between two own selections, share / (1 - share) selections of the backup are due
            due += share / (1 - share)
            while due >= 0.5:
                found.append(next(source))
                due -= 1
            found.append(selection)
        parts.append(found)
    own_weights, their_weights = plan_shares(own), plan_shares(backup)
    own_weights = (*own_weights, *(0.0,) * (members - len(own_weights)))
    return Plan(
        (*own.order[: own.probes], *parts[0], *parts[1]),
        own.probes + len(parts[0]),
        (*[(1 - share) * weight for weight in own_weights], *[share * weight for weight in their_weights]),
        probes=own.probes,
        light=own.light,
        ranking=tuple(dict.fromkeys((*plan_ranking(own), *plan_ranking(theirs)))),
    )


def _shifted(plan: Plan, by: int) -> Plan:
    shifted = [i + by for i in plan.order]
    return replace(plan, order=shifted, ranking=[i + by for i in plan.ranking])


def plan_shares(plan: Plan) -> tuple[float, ...]:
    """Return the members' shares of a plan's selections; they add up to 1."""
    if (total := sum(plan.weights)) > 0:
        return tuple(weight / total for weight in plan.weights)
    order = plan.order[max(plan.repeat_from, plan.probes) :] or plan.order
    counts = Counter(order)
    return tuple(counts[i] / len(order) for i in range(max(counts) + 1))


def plan_ranking(plan: Plan) -> Sequence[int]:
    """Return the members that a plan selects, best first."""
    return plan.ranking or tuple(dict.fromkeys(plan.order[plan.probes :]))
