"""Overdue reports: policies skip members whose report is overdue, unless at least half of the members are overdue."""

from __future__ import annotations

from lbdns.policies.plan import PoolView


def without_overdue(view: PoolView) -> list[int]:
    """Return the candidates whose reports are on time; all candidates if half of them or more are overdue.

    When that many reports are missing at once, the network or the collector is more likely to blame than the servers.
    """
    candidates = view.candidates
    overdue = sum(view.members[i].overdue for i in candidates)
    if 2 * overdue >= len(candidates):
        return candidates
    return [i for i in candidates if not view.members[i].overdue]
