"""Smooth weighted sequences: shares written out as an order of hand-outs, deterministic, no member bunched. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lbdns.policies.plan import Handed, Plan, PoolView

MIN_LENGTH = 64  # hand-outs: enough that a share of 2 % shows
MAX_LENGTH = 1024  # hand-outs: a share of 0.1 % still shows; longer plans cost more than they even out


def spread(view: PoolView, weights: Sequence[float], handed: Handed | None) -> Plan:
    """A plan that gives each member its share (``weights``, sum 1) as evenly as it can be.

    What a member was owed out of the previous plan is carried on as its credit, within one hand-out either way.
    The k-th hand-out of a member with share w and credit c falls due in the middle of its turn, (k - 1/2 - c) / w
    hand-outs from the beginning; the order is that of the due dates.
    """
    credits = carried_credits(handed, len(weights))
    length = plan_length(view)
    due: list[tuple[float, int]] = []
    for i, (weight, credit) in enumerate(zip(weights, credits, strict=True)):
        if weight > 0:
            step = 1 / weight
            due.extend(((k - 0.5 - credit) * step, i) for k in range(1, int(length * weight + credit) + 3))
    due.sort()
    return Plan(tuple(i for _, i in due[:length]), 0, tuple(weights), credits)


def plan_length(view: PoolView) -> int:
    """How many hand-outs a plan has: twice those of a report interval, within bounds. Behind its end it begins anew."""
    return min(MAX_LENGTH, max(MIN_LENGTH, int(2 * view.answers_per_s * view.interval)))


def carried_credits(handed: Handed | None, members: int) -> tuple[float, ...]:
    """What each member is owed after what was handed out, within -1 and 1."""
    if handed is None or len(handed.plan.weights) != members:
        return (0.0,) * members
    total = sum(handed.counts)
    return tuple(
        min(1.0, max(-1.0, credit + total * weight - count))
        for credit, weight, count in zip(handed.plan.credits, handed.plan.weights, handed.counts, strict=True)
    )
