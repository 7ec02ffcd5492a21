"""Overdue reports: a suspect member gets nothing, unless so many are suspect that the reports are to blame. Pure."""

from __future__ import annotations

from lbdns.policies.plan import PoolView


def trusted(view: PoolView) -> list[int]:
    """The candidates without the suspects, while fewer than half of them are suspect; else all."""
    candidates = view.candidates
    suspects = sum(view.members[i].suspect for i in candidates)
    if 2 * suspects >= len(candidates):
        return candidates
    return [i for i in candidates if not view.members[i].suspect]
