"""Ranks a pool's candidates, best first. If a pool's answers name several members, the ranking completes each answer.

A policy's plan decides which member an answer names first. A plan seldom contains all candidates, because it may list a
single member many times. All functions are pure.
"""

from __future__ import annotations

from lbdns.policies.highest_scores import fastest, nearly_highest
from lbdns.policies.plan import PoolView, Selections, SortKey, rotation


def ranking(view: PoolView, key: SortKey, previous: Selections | None) -> tuple[int, ...]:
    """Return the candidates of ``view``, sorted by ``key``. Equal members take turns.

    Members in alarm follow all others, and members whose reports are overdue come last, because the ranking is used for
    clients that could not reach another member.
    """
    overdue, alarmed = view.columns.overdue, view.columns.alarmed
    turns = rotation(view.candidates, previous).order
    return tuple(sorted(turns, key=lambda i: (i in overdue, i in alarmed, key(i))))


def by_score(view: PoolView) -> SortKey:
    """Return a key that puts members with a higher score first."""
    scores = view.columns.scores
    return lambda i: -scores[i]


def by_capacity(view: PoolView) -> SortKey:
    """Return a key that puts members with more capacity first."""
    capacities, ramps = view.columns.capacities, view.columns.ramps
    return lambda i: -capacities[i] * ramps.get(i, 1.0)


def by_fullness(view: PoolView) -> SortKey:
    """Return a key that puts members first that need less time for their load and one more request."""

    columns = view.columns
    capacities = columns.usable_capacities

    def fullness(i: int) -> float:
        load = max(0.0, columns.loads[i] + columns.charges[i]) + view.multiplier
        return load / max(capacities[i], 1e-9)

    return fullness


def as_best(view: PoolView) -> SortKey:
    """Return the key of policy ``best``: by score when traffic is light, except that the fastest of the members with
    nearly the highest score come first; otherwise by fullness."""
    if view.answers_allowed <= 0:
        return by_fullness(view)
    near = nearly_highest(view)
    first, second = frozenset(fastest(view, near)), frozenset(near)
    score = by_score(view)
    return lambda i: (i not in first, i not in second, score(i))
