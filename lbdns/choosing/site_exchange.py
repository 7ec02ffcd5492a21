"""Prevents sites from exchanging clients, who would get servers farther away although no site's load changes. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

Flows = dict[tuple[int, int], float]  # (nearest site of the clients, site that they are sent to) -> their demand

FAINT: Final = 1e-6  # of the whole demand: that of clients without recent answers, whose shares must not cross either


def without_exchange(
    shares: Sequence[Sequence[float]], nearest: Sequence[int], demand: Sequence[float]
) -> list[list[float]]:
    """Return ``shares`` in which no two sites send clients to each other, and no larger circle of sites does.

    The arguments are sequences by order: the shares of the sites, the ``nearest`` site that can serve, and the demand
    of the clients. Clients who would be exchanged stay at their nearest site, as many in each
    site of a circle, so the load of the sites does not change.
    """
    found = [list(parts) for parts in shares]
    least = FAINT * math.fsum(demand) or 1.0
    while circle := _circle(flows := _flows(found, nearest, [max(least, d) for d in demand])):
        excess = min(flows[edge] for edge in circle)
        for home, site in circle:
            # The smallest flow must become exactly 0, or the loop might not end
            kept = 1 - excess / flows[home, site] if flows[home, site] > excess else 0.0
            for parts, near in zip(found, nearest, strict=True):
                if near == home:
                    parts[home] += parts[site] * (1 - kept)
                    parts[site] *= kept
    return found


def without_meeting(
    targets: Sequence[Sequence[float]], shares: Sequence[Sequence[float]], nearest: Sequence[int]
) -> list[list[float]]:
    """Return ``targets`` in which a site gets no more clients from another one than now while the other still has some
    of its clients: these return first.

    The arguments are sequences by order: the future and the present shares of the sites, and the ``nearest`` site that
    can serve.
    """
    away = {
        (home, site) for parts, home in zip(shares, nearest, strict=True) for site, part in enumerate(parts) if part
    }
    found = [list(parts) for parts in targets]
    for parts, before, home in zip(found, shares, nearest, strict=True):
        for site, share in enumerate(parts):
            if site != home and (site, home) in away and share > before[site]:
                parts[site] = before[site]
                parts[home] += share - before[site]
    return found


def _flows(shares: Sequence[Sequence[float]], nearest: Sequence[int], demand: Sequence[float]) -> Flows:
    flows: Flows = {}
    for parts, home, d in zip(shares, nearest, demand, strict=True):
        for site, share in enumerate(parts):
            if site != home and share > 0:
                flows[home, site] = flows.get((home, site), 0.0) + d * share
    return flows


def _circle(flows: Flows) -> list[tuple[int, int]]:
    """Return the flows of the first shortest circle of sites, or an empty list if there is none."""
    shortest: list[tuple[int, int]] = []
    for start in sorted({home for home, _ in flows}):
        paths: list[tuple[int, ...]] = [(start,)]
        seen = {start}
        while paths:
            longer = [(*path, site) for path in paths for home, site in sorted(flows) if home == path[-1]]
            if closed := next((path for path in longer if path[-1] == start), None):
                if not shortest or len(closed) <= len(shortest):
                    shortest = list(pairwise(closed))
                break
            paths = []
            for path in longer:
                if path[-1] not in seen:
                    seen.add(path[-1])
                    paths.append(path)
    return shortest
